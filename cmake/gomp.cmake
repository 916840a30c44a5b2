# Finds libgomp (GOMP_LIBRARY), GCC's OpenMP runtime, for every compiler: csrc/base/parallel.cpp says why not clang's.
#
# It lies in GCC's own folder, which clang searches too, since it takes libstdc++ from there.
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libgomp.so OUTPUT_VARIABLE GOMP_HINT
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
get_filename_component(GOMP_HINT "${GOMP_HINT}" DIRECTORY)
find_library(GOMP_LIBRARY NAMES gomp libgomp.so.1 HINTS ${GOMP_HINT})
if(NOT GOMP_LIBRARY)
  message(FATAL_ERROR "libgomp was not found. flambeau runs its threads on GCC's OpenMP runtime, with clang too: install "
                      "g++ (or the package libgomp1, libgomp), or give -DGOMP_LIBRARY=/path/of/libgomp.so.1.")
endif()
message(STATUS "OpenMP runtime: ${GOMP_LIBRARY}")
