# Cross-compiles to Windows on x64 with the cross compiler of Debian and Ubuntu, g++-mingw-w64-x86-64-posix.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_CXX_COMPILER x86_64-w64-mingw32-g++-posix)
set(CMAKE_DLLTOOL x86_64-w64-mingw32-dlltool)
