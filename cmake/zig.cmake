# Cross-compiles by Zig's clang, which brings the C and C++ libraries of other systems: set ZIG_TARGET in the environment
# to x86_64-linux-musl, aarch64-linux-musl, aarch64-macos or x86_64-macos.
string(REGEX MATCH "^([^-]+)-([^-]+)" matched "$ENV{ZIG_TARGET}")
if(NOT matched)
  message(FATAL_ERROR "the variable ZIG_TARGET must name a target such as x86_64-linux-musl; it is '$ENV{ZIG_TARGET}'")
endif()
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_MATCH_1})
if(CMAKE_MATCH_2 STREQUAL "macos")
  set(CMAKE_SYSTEM_NAME Darwin)
  # Zig does not know bundles, which CMake makes of modules. Node.js loads libraries as well.
  set(CMAKE_MODULE_LINKER_FLAGS_INIT -dynamiclib)
else()
  set(CMAKE_SYSTEM_NAME Linux)
endif()
find_program(zig zig REQUIRED)
set(CMAKE_CXX_COMPILER ${zig} c++)
set(CMAKE_CXX_COMPILER_TARGET $ENV{ZIG_TARGET})
