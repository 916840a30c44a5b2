# Finds oneDNN >= 3.2 (DNNL_INCLUDE, DNNL_LIBRARY) and defines bundle_dnnl().
#
# Looked for, in this order: FLAMBEAU_DNNL_ROOT; the wheels onednn-devel-cpu-gomp and onednn-cpu-gomp of the
# building Python, whose files lie under the data folder of the environment they were installed into (with
# build isolation that is pip's temporary overlay, not sys.prefix, so cmake/find_dnnl.py asks the wheel's own
# record); the system.

# A temporary build environment is gone at the next build: forget what was found there.
foreach(found DNNL_INCLUDE DNNL_LIBRARY)
  if(${found} AND NOT EXISTS ${${found}})
    unset(${found} CACHE)
  endif()
endforeach()

if(FLAMBEAU_DNNL_ROOT)
  set(DNNL_HINTS ${FLAMBEAU_DNNL_ROOT})
  set(DNNL_ONLY NO_DEFAULT_PATH)
else()
  execute_process(COMMAND ${Python_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/find_dnnl.py
                  OUTPUT_VARIABLE DNNL_HINTS OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(DNNL_ONLY)
endif()
find_path(DNNL_INCLUDE NAMES oneapi/dnnl/dnnl.hpp HINTS ${DNNL_HINTS} PATH_SUFFIXES include ${DNNL_ONLY})
find_library(DNNL_LIBRARY NAMES libdnnl.so.3 dnnl HINTS ${DNNL_HINTS} PATH_SUFFIXES lib lib64 ${DNNL_ONLY})
if(NOT DNNL_INCLUDE OR NOT DNNL_LIBRARY)
  message(FATAL_ERROR "oneDNN >= 3.2 was not found. Install the wheels onednn-devel-cpu-gomp and onednn-cpu-gomp, "
                      "give -DFLAMBEAU_DNNL_ROOT=..., or build with -DFLAMBEAU_ONEDNN=OFF.")
endif()
file(STRINGS ${DNNL_INCLUDE}/oneapi/dnnl/dnnl_version.h DNNL_DEFINES REGEX "#define DNNL_VERSION_(MAJOR|MINOR|PATCH)")
string(REGEX REPLACE "[^0-9;]" "" DNNL_VERSION "${DNNL_DEFINES}")
string(REPLACE ";" "." DNNL_VERSION "${DNNL_VERSION}")
if(DNNL_VERSION VERSION_LESS 3.2)
  message(FATAL_ERROR "oneDNN ${DNNL_VERSION} (${DNNL_INCLUDE}) is too old: flambeau needs 3.2 or newer.")
endif()
message(STATUS "oneDNN ${DNNL_VERSION}: ${DNNL_LIBRARY}")

# One copy of the library beside the module, under the name that the module asks for, without its symbols.
# (A wheel can not hold links, so the one on PyPI holds the same 60 MB three times.)
function(bundle_dnnl)
  get_filename_component(real ${DNNL_LIBRARY} REALPATH)
  set(bundled ${CMAKE_CURRENT_BINARY_DIR}/bundle/libdnnl.so.3)
  find_program(STRIP strip REQUIRED)
  add_custom_command(OUTPUT ${bundled}
    COMMAND ${CMAKE_COMMAND} -E copy ${real} ${bundled}
    COMMAND ${STRIP} --strip-unneeded ${bundled}
    DEPENDS ${real}
    COMMENT "oneDNN: strip and bundle")
  add_custom_target(dnnl_bundle ALL DEPENDS ${bundled})
  install(FILES ${bundled} DESTINATION flambeau)
endfunction()
