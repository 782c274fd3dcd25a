# The native library that models are put into (runtime/ over kernels/), built before the exporters, which hold a copy of
# it.

# schemas/plan.fbs as a C++ header.
add_custom_command(
  OUTPUT ${CMAKE_BINARY_DIR}/generated/fbs/plan_generated.h
  COMMAND ${FLATC} --cpp --cpp-std c++17 --no-includes -o ${CMAKE_BINARY_DIR}/generated/fbs
    ${CMAKE_SOURCE_DIR}/schemas/plan.fbs
  DEPENDS ${CMAKE_SOURCE_DIR}/schemas/plan.fbs)
add_custom_target(slipway_plan_header DEPENDS ${CMAKE_BINARY_DIR}/generated/fbs/plan_generated.h)
add_library(slipway_plan_file INTERFACE)
add_dependencies(slipway_plan_file slipway_plan_header)
target_include_directories(slipway_plan_file SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/generated/fbs ${FLATBUFFERS_INCLUDE})

# Headers that users include too.
function(slipway_see_public_headers target)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/include)
endfunction()

# How the template is linked. GNU ld: INSERT and the alignment of template.ld are not what every linker understands. The
# soname is a place to write one.
string(REPEAT "x" 64 soname)
set(slipway_template_link
  -fuse-ld=bfd -static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL -Wl,-Bsymbolic -Wl,--gc-sections
  -Wl,--hash-style=gnu -Wl,--build-id=sha1 -Wl,-z,now -Wl,-z,relro -Wl,-z,noexecstack -Wl,-z,defs
  -Wl,-z,max-page-size=65536 -Wl,--version-script=${CMAKE_SOURCE_DIR}/runtime/exports.map
  -Wl,-T,${CMAKE_SOURCE_DIR}/runtime/template.ld -Wl,-soname,${soname})

function(slipway_native_template)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/runtime/*.cc ${CMAKE_SOURCE_DIR}/runtime/*.S)
  add_library(slipway_runtime SHARED ${sources})
  slipway_see_rooms(slipway_runtime base runtime kernels)
  slipway_see_public_headers(slipway_runtime)
  target_link_libraries(slipway_runtime PRIVATE room_kernels slipway_plan_file ${CMAKE_DL_LIBS})
  target_compile_options(slipway_runtime PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-fvisibility=hidden -fvisibility-inlines-hidden>)
  set_target_properties(slipway_runtime PROPERTIES NO_SONAME ON LINK_DEPENDS
    "${CMAKE_SOURCE_DIR}/runtime/template.ld;${CMAKE_SOURCE_DIR}/runtime/exports.map")
  target_link_options(slipway_runtime PRIVATE ${slipway_template_link})
  slipway_runs_on_old_glibc(slipway_runtime)
  set(template ${CMAKE_BINARY_DIR}/generated/template.so)
  add_custom_command(OUTPUT ${template}
    COMMAND ${CMAKE_STRIP} -s -R .note.stapsdt -R .comment -o ${template} $<TARGET_FILE:slipway_runtime>
    DEPENDS slipway_runtime)
  # Of another architecture, where there is one (CrossRuntime.cmake).
  set_source_files_properties(exporters/native/template.S PROPERTIES
    OBJECT_DEPENDS "${template};${SLIPWAY_AARCH64_RUNTIME};${SLIPWAY_AARCH64_RUNNER}"
    COMPILE_DEFINITIONS "SLIPWAY_TEMPLATE=\"${template}\";${SLIPWAY_AARCH64_DEFINITIONS}")
endfunction()
