# Lets a binary that is linked with a new C library load with glibc 2.28, the oldest that Node.js runs on.
#
# For each symbol the linker takes the default version of the C library at hand, and a binary does not load where one of
# its versions is missing. glibc 2.34 gave the functions of threads and of dlopen new versions, 2.29 gave exp and log
# new ones. Every glibc still has the old ones. So the binary is linked with libraries of these names that have the old
# versions alone. They come before the C library. native/portability/glibc_floor.cpp has what is without an old version.
# test/addon/binary.test.ts fails when the binary uses a new symbol that neither has.

set(old_symbols_of_libpthread.so.0
  __pthread_key_create pthread_condattr_setpshared pthread_create pthread_detach pthread_getspecific pthread_join
  pthread_key_create pthread_key_delete pthread_kill pthread_mutex_trylock pthread_mutexattr_destroy
  pthread_mutexattr_init pthread_mutexattr_setpshared pthread_mutexattr_settype pthread_once pthread_rwlock_destroy
  pthread_rwlock_init pthread_rwlock_rdlock pthread_rwlock_timedrdlock pthread_rwlock_timedwrlock
  pthread_rwlock_tryrdlock pthread_rwlock_trywrlock pthread_rwlock_unlock pthread_rwlock_wrlock
  pthread_rwlockattr_destroy pthread_rwlockattr_init pthread_rwlockattr_setpshared pthread_setspecific
  pthread_spin_destroy pthread_spin_init pthread_spin_lock pthread_spin_trylock pthread_spin_unlock sem_destroy sem_init
  sem_post sem_timedwait sem_trywait sem_wait)
set(old_symbols_of_libdl.so.2 dlclose dlerror dlmopen@2.3.4 dlopen dlsym dlvsym)
set(old_symbols_of_librt.so.1 shm_open shm_unlink)
set(old_symbols_of_libm.so.6 exp log log2 pow)

# The version of symbols that an architecture's first glibc had. Symbols that came later have theirs behind the @.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64)$")
  set(first_glibc 2.2.5)
else()
  set(first_glibc 2.17)
endif()

# A library of empty functions, which only the linker sees, with the versions of the true ones.
function(warpconv_add_old_library library target)
  set(source "")
  foreach(symbol ${old_symbols_of_${library}})
    string(REGEX MATCH "^([^@]+)@?(.*)$" matched ${symbol})
    set(version ${CMAKE_MATCH_2})
    if(NOT version OR version VERSION_LESS first_glibc)
      set(version ${first_glibc})
    endif()
    string(APPEND source "extern \"C\" void ${CMAKE_MATCH_1}() {}\n")
    string(APPEND symbols_${version} " ${CMAKE_MATCH_1};")
    list(APPEND versions ${version})
  endforeach()
  list(REMOVE_DUPLICATES versions)
  set(script "")
  foreach(version ${versions})
    string(APPEND script "GLIBC_${version} { global:${symbols_${version}} };\n")
  endforeach()

  set(folder ${CMAKE_CURRENT_BINARY_DIR}/glibc_floor)
  file(CONFIGURE OUTPUT ${folder}/${library}.cpp CONTENT "${source}" @ONLY)
  file(CONFIGURE OUTPUT ${folder}/${library}.map CONTENT "${script}" @ONLY)
  add_library(${target} SHARED ${folder}/${library}.cpp)
  set_target_properties(${target} PROPERTIES
    NO_SONAME ON LIBRARY_OUTPUT_DIRECTORY ${folder} LINK_DEPENDS ${folder}/${library}.map)
  target_compile_options(${target} PRIVATE -fno-builtin -fvisibility=default)
  target_link_options(${target} PRIVATE -nostdlib LINKER:-soname,${library} LINKER:--version-script,${folder}/${library}.map)
endfunction()

# Not where another C library is, as musl.
function(warpconv_keep_to_old_glibc target)
  include(CheckCXXSymbolExists)
  check_cxx_symbol_exists(__GLIBC__ features.h WARPCONV_HAS_GLIBC)
  if(NOT WARPCONV_HAS_GLIBC)
    return()
  endif()
  target_sources(${target} PRIVATE native/portability/glibc_floor.cpp)
  # The libraries of the system are meant, not these.
  set_target_properties(${target} PROPERTIES SKIP_BUILD_RPATH ON)
  target_link_options(${target} PRIVATE LINKER:--no-as-needed)
  foreach(library libpthread.so.0 libdl.so.2 librt.so.1 libm.so.6)
    string(REGEX REPLACE "[.].*" "" name ${library})
    warpconv_add_old_library(${library} warpconv_old_${name})
    target_link_libraries(${target} PRIVATE warpconv_old_${name})
  endforeach()
endfunction()
