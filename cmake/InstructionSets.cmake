# The instruction sets that micro-kernels (kernels/isa) are compiled for. A set has families, a source each
# (kernels/isa/FAMILY.cc); all other micro-kernels of a set are those of the set that it extends. kernels/isa/isa.cc
# puts the tables of the sets together that were built, and chooses the last of them that the processor has.
#
# SLIPWAY_ISAS says which are built, of those of this architecture (here) and of none of other architectures
# (CrossRuntime.cmake, which compiles all of Arm's).
set(SLIPWAY_ISAS all CACHE STRING
  "Instruction sets that kernels are compiled for: all; native (the newest of this machine and what extends it); or \
names (avx2;avx512)")

set(slipway_all_sets "")      # from the oldest to the newest
set(slipway_all_families "")  # of any set
# slipway_set(NAME ARCHITECTURE name EXTENDS set BYTES of a vector ROWS of a tile FAMILIES … FLAGS … PRESENT words of
# /proc/cpuinfo, all of which a processor with it has)
macro(slipway_set name)
  cmake_parse_arguments(SET "" "ARCHITECTURE;EXTENDS;BYTES;ROWS" "FAMILIES;FLAGS;PRESENT" ${ARGN})
  list(APPEND slipway_all_sets ${name})
  list(APPEND slipway_all_families ${SET_FAMILIES})
  foreach(property ARCHITECTURE EXTENDS FAMILIES FLAGS PRESENT)
    set(slipway_${name}_${property} "${SET_${property}}")
  endforeach()
  set(slipway_${name}_DEFINITIONS SLIPWAY_ISA=${name} SLIPWAY_ISA_BYTES=${SET_BYTES})
  if(SET_ROWS)
    list(APPEND slipway_${name}_DEFINITIONS SLIPWAY_ISA_ROWS=${SET_ROWS})
  endif()
endmacro()

set(whole attention conv_nchw conv_nhwc dequant_gemm elementwise gemm int8_conv int8_gemm reduction rnn)
set(dots int8_conv int8_gemm split_int8_gemm)
set(halves bf16_conv bf16_gemm)
set(avx2 -mavx2 -mfma -mf16c -ffp-contract=fast)
set(avx512 -mavx512f -mavx512vl -mavx512bw -mavx512dq -mprefer-vector-width=512 -mfma -mf16c -ffp-contract=fast)
slipway_set(v2 ARCHITECTURE x86_64 BYTES 16 ROWS 6 FAMILIES ${whole} FLAGS -march=x86-64-v2)
slipway_set(avx2 ARCHITECTURE x86_64 BYTES 32 ROWS 6 FAMILIES ${whole} FLAGS ${avx2} PRESENT avx2 fma f16c)
slipway_set(avxvnni ARCHITECTURE x86_64 EXTENDS avx2 BYTES 32 FAMILIES ${dots} FLAGS ${avx2} -mavxvnni
  PRESENT avx_vnni)
slipway_set(avx512 ARCHITECTURE x86_64 BYTES 64 ROWS 12 FAMILIES ${whole} FLAGS ${avx512}
  PRESENT avx512f avx512vl avx512bw avx512dq fma f16c)
slipway_set(avx512vnni ARCHITECTURE x86_64 EXTENDS avx512 BYTES 64 FAMILIES ${dots} FLAGS ${avx512} -mavx512vnni
  PRESENT avx512_vnni)
# GCC 12's intrinsics begin with vectors that are not set (its bug 105593).
slipway_set(avx512bf16 ARCHITECTURE x86_64 EXTENDS avx512vnni BYTES 64 FAMILIES ${halves}
  FLAGS ${avx512} -mavx512bf16 -Wno-uninitialized PRESENT avx512_bf16)
slipway_set(amx ARCHITECTURE x86_64 EXTENDS avx512bf16 BYTES 64 FAMILIES amx
  FLAGS ${avx512} -mavx512vnni -mamx-tile -mamx-int8 -mamx-bf16 PRESENT amx_tile amx_int8 amx_bf16)
set(arm -ffp-contract=fast)
slipway_set(neon ARCHITECTURE aarch64 BYTES 16 ROWS 12 FAMILIES ${whole} FLAGS ${arm})
slipway_set(dotprod ARCHITECTURE aarch64 EXTENDS neon BYTES 16 FAMILIES ${dots} FLAGS ${arm} -march=armv8.2-a+dotprod
  PRESENT asimddp)
slipway_set(i8mm ARCHITECTURE aarch64 EXTENDS neon BYTES 16 FAMILIES ${dots} FLAGS ${arm} -march=armv8.2-a+dotprod+i8mm
  PRESENT i8mm)
slipway_set(bf16 ARCHITECTURE aarch64 EXTENDS i8mm BYTES 16 FAMILIES ${halves}
  FLAGS ${arm} -march=armv8.2-a+dotprod+i8mm+bf16 PRESENT bf16)
list(REMOVE_DUPLICATES slipway_all_families)
list(JOIN slipway_all_families "|" slipway_isa_sources)
set(slipway_isa_sources "/kernels/isa/(${slipway_isa_sources})\\.cc$")  # all others are compiled once
set(SLIPWAY_ARM_SCHEDULE -fno-schedule-insns)  # GCC 12 schedules tiles so that accumulators do not fit into registers

# The sets of an architecture; any has what is written for all.
function(slipway_sets_of architecture variable)
  set(sets "")
  foreach(name IN LISTS slipway_all_sets)
    if(slipway_${name}_ARCHITECTURE STREQUAL architecture)
      list(APPEND sets ${name})
    endif()
  endforeach()
  if(NOT sets)
    set(sets v2)
  endif()
  set(${variable} ${sets} PARENT_SCOPE)
endfunction()
# The definitions by which isa.cc knows that sets are built.
function(slipway_definitions_of_sets variable)
  set(definitions "")
  foreach(name IN LISTS ARGN)
    string(TOUPPER ${name} upper)
    list(APPEND definitions SLIPWAY_WITH_${upper}=1)
  endforeach()
  set(${variable} ${definitions} PARENT_SCOPE)
endfunction()

# Of `sets`, the last one that a processor with `words` has all by itself, and those that it has of what extends that.
function(slipway_native_sets words variable)
  set(native "")
  foreach(name IN LISTS ARGN)
    set(present ON)
    foreach(word IN LISTS slipway_${name}_PRESENT)
      if(NOT word IN_LIST words)
        set(present OFF)
      endif()
    endforeach()
    if(NOT present)
      continue()
    elseif(NOT slipway_${name}_EXTENDS)
      set(native ${name})
    elseif(slipway_${name}_EXTENDS IN_LIST native)
      list(APPEND native ${name})
    endif()
  endforeach()
  set(${variable} ${native} PARENT_SCOPE)
endfunction()

# SLIPWAY_BUILT_SETS: what SLIPWAY_ISAS names and what that extends, in the order of the table.
slipway_sets_of(${CMAKE_SYSTEM_PROCESSOR} sets)
set(chosen ${SLIPWAY_ISAS})
if(SLIPWAY_ISAS STREQUAL "native")
  set(chosen all)
  if(EXISTS /proc/cpuinfo AND NOT CMAKE_CROSSCOMPILING)
    file(STRINGS /proc/cpuinfo words REGEX "^(flags|Features)" LIMIT_COUNT 1)
    string(REGEX MATCHALL "[a-z0-9_]+" words "${words}")
    slipway_native_sets("${words}" chosen ${sets})
  endif()
endif()
if(chosen STREQUAL "all")
  set(chosen ${sets})
endif()
foreach(name IN LISTS chosen)
  if(NOT name IN_LIST sets)
    list(JOIN sets ", " known)
    message(FATAL_ERROR "SLIPWAY_ISAS: no instruction set ${name}; there are ${known}, and all and native.")
  endif()
endforeach()
list(REVERSE sets)
set(SLIPWAY_BUILT_SETS "")
foreach(name IN LISTS sets)
  if(name IN_LIST chosen)
    list(PREPEND SLIPWAY_BUILT_SETS ${name})
    list(APPEND chosen ${slipway_${name}_EXTENDS})
  endif()
endforeach()
if(NOT SLIPWAY_BUILT_SETS)
  message(FATAL_ERROR "SLIPWAY_ISAS names no instruction set.")
endif()
if(NOT SLIPWAY_ISAS STREQUAL "all")
  list(JOIN SLIPWAY_BUILT_SETS ", " names)
  message(STATUS "Kernels for ${names} only (SLIPWAY_ISAS=${SLIPWAY_ISAS})")
endif()

# Adds the micro-kernels of the sets that are built to room_kernels: a library of objects for each. `vectorize` are
# flags for loops at -O2. -O3 takes minutes for tiles of 12 rows and makes nothing faster of loops that are written with
# vectors.
function(slipway_micro_kernels vectorize)
  set(flags -O2 ${vectorize})
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    list(APPEND flags $<$<CXX_COMPILER_ID:GNU>:${SLIPWAY_ARM_SCHEDULE}>)
  elseif(SLIPWAY_SANITIZE)  # no checks of each access that AddressSanitizer repeats: ten minutes of unrolled tiles
    set(flags -O1)
    if(NOT SLIPWAY_SANITIZE STREQUAL "thread")
      list(APPEND flags -fno-sanitize=null,alignment,object-size,pointer-overflow)
    endif()
  endif()
  foreach(name IN LISTS SLIPWAY_BUILT_SETS)
    set(sources ${slipway_${name}_FAMILIES})
    list(TRANSFORM sources REPLACE "(.+)" "kernels/isa/\\1.cc")
    add_library(kernels_${name} OBJECT ${sources})
    target_include_directories(kernels_${name} PRIVATE $<TARGET_PROPERTY:room_kernels,INCLUDE_DIRECTORIES>)
    target_compile_definitions(kernels_${name} PRIVATE ${slipway_${name}_DEFINITIONS})
    target_compile_options(kernels_${name} PRIVATE $<TARGET_PROPERTY:room_kernels,COMPILE_OPTIONS> ${flags})
    if(slipway_${name}_ARCHITECTURE STREQUAL CMAKE_SYSTEM_PROCESSOR)
      target_compile_options(kernels_${name} PRIVATE ${slipway_${name}_FLAGS})
    endif()
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # Clang 16 does not find va_list behind one of intrinsics
      target_precompile_headers(kernels_${name} PRIVATE kernels/isa/intrinsics.h)
      slipway_pch_sum(kernels_${name})
    endif()
    target_sources(room_kernels PRIVATE $<TARGET_OBJECTS:kernels_${name}>)
  endforeach()
  slipway_definitions_of_sets(definitions ${SLIPWAY_BUILT_SETS})
  set_source_files_properties(kernels/isa/isa.cc PROPERTIES COMPILE_DEFINITIONS "${definitions}")
endfunction()
