# The program, and the libraries that it makes of models, run on glibc 2.28 and later (Debian 10, Ubuntu 20.04, RHEL 8;
# the manylinux_2_28 of wheels), though they are built where it is newer: cmake/glibc/make_stubs.py says how. Where it
# cannot, they ask for this machine's glibc. packaging/check_glibc.py tells what a file asks for.
set(SLIPWAY_OLDEST_GLIBC "2.28" CACHE STRING "The oldest glibc that what is built runs on; empty: this machine's")
set(SLIPWAY_GLIBC_STUBS "")
if(SLIPWAY_OLDEST_GLIBC AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|aarch64)$" AND NOT SLIPWAY_SANITIZE)
  find_program(PYTHON3 python3 REQUIRED)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    cmake/glibc/make_stubs.py cmake/glibc/compat.c cmake/glibc/start.c)
  execute_process(
    COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/cmake/glibc/make_stubs.py
      ${CMAKE_BINARY_DIR}/glibc ${SLIPWAY_OLDEST_GLIBC} ${CMAKE_CXX_COMPILER}
    RESULT_VARIABLE failed ERROR_VARIABLE reason)
  if(failed)
    string(STRIP "${reason}" reason)
    message(STATUS "Linking with this machine's glibc: ${reason}")
  else()
    set(SLIPWAY_GLIBC_STUBS ${CMAKE_BINARY_DIR}/glibc)
  endif()
endif()

function(slipway_runs_on_old_glibc target)
  if(SLIPWAY_GLIBC_STUBS)
    # Shared libraries that the target needs may ask for more than the stubs have.
    target_link_options(${target} PRIVATE -B${SLIPWAY_GLIBC_STUBS} -L${SLIPWAY_GLIBC_STUBS} -Wl,--allow-shlib-undefined)
  endif()
endfunction()
