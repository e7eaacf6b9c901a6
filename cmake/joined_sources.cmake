# warpconv_join_sources(<target> [ALONE <regular expression>])
#
# Compiles files of a folder together, eight at most: most of a file's time goes into headers that its neighbours include
# too, and a build takes half the time. Not in tests' plain builds, where each file must include what it needs.
# Files with options of their own stay alone, those of others' folders, and those that ALONE matches.
#
# CMake's own way, UNITY_BUILD, takes CUDA since 3.31 only.
function(warpconv_join_sources target)
  cmake_parse_arguments(PARSE_ARGV 1 join "" ALONE "")
  get_target_property(sources ${target} SOURCES)
  set(units)
  foreach(source ${sources})
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    if(options OR IS_ABSOLUTE "${source}" OR source MATCHES "^\\$<" OR (join_ALONE AND source MATCHES "${join_ALONE}"))
      list(APPEND units ${source})
      continue()
    endif()
    # The algorithms of an engine have functions of the same names, and a folder each.
    string(REGEX MATCH "^(native/cpu/[a-z_0-9]+|[a-z]+)/" folder ${source})
    cmake_path(GET source EXTENSION LAST_ONLY extension)
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    set(kind ${folder}${extension})
    math(EXPR part "0${files_of_${kind}} / 8")
    math(EXPR files_of_${kind} "0${files_of_${kind}} + 1")
    set(unit ${CMAKE_CURRENT_BINARY_DIR}/joined/${target}/${folder}${part}${extension})
    string(APPEND text_of_${unit} "#include \"${CMAKE_CURRENT_SOURCE_DIR}/${source}\"\n")
    list(APPEND units ${unit})
  endforeach()
  list(REMOVE_DUPLICATES units)
  foreach(unit ${units})
    if(DEFINED text_of_${unit})
      file(CONFIGURE OUTPUT ${unit} CONTENT "${text_of_${unit}}" @ONLY)
    endif()
  endforeach()
  set_property(TARGET ${target} PROPERTY SOURCES ${units})
endfunction()
