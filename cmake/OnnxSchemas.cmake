# Writes onnx_schemas.inc: a line SLIPWAY_SCHEMA(since_version, Operator) for each schema class of the default domain
# that ONNX's header declares. onnx_model/schemas.cc makes its table of it.
file(STRINGS "${SLIPWAY_ONNX_ROOT}/include/onnx/defs/operator_sets.h" lines REGEX "fn\\(GetOpSchema<")
set(table "")
foreach(line IN LISTS lines)
  string(REGEX REPLACE ".*CLASS_NAME\\(Onnx, *([0-9]+), *([A-Za-z0-9_]+)\\).*"
    "SLIPWAY_SCHEMA(\\1, \\2)\n" entry "${line}")
  string(APPEND table "${entry}")
endforeach()
if(table STREQUAL "")
  message(FATAL_ERROR "no operator schemas in ${SLIPWAY_ONNX_ROOT}/include/onnx/defs/operator_sets.h")
endif()
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/generated/onnx_schemas.inc" CONTENT "${table}" @ONLY)
target_include_directories(room_onnx_model PRIVATE "${CMAKE_BINARY_DIR}/generated")
