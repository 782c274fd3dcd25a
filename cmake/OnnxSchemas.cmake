# Writes onnx_schemas.inc: a line SLIPWAY_SCHEMA(Domain, since_version, Operator) for each schema class that ONNX's
# headers declare of the default domain (Onnx) and of operators on trial (OnnxPreview), without those of training, which
# are declared among the latter. onnx_model/schemas.cc makes its table of it.
set(table "")
foreach(header operator_sets operator_sets_preview)
  file(STRINGS "${SLIPWAY_ONNX}/include/onnx/defs/${header}.h" lines REGEX "fn\\(GetOpSchema<")
  if(NOT lines)
    message(FATAL_ERROR "no operator schemas in ${SLIPWAY_ONNX}/include/onnx/defs/${header}.h")
  endif()
  list(FILTER lines EXCLUDE REGEX " (Gradient|Momentum|Adagrad|Adam)\\)")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "ONNX_PREVIEW_OPERATOR_SET_SCHEMA_CLASS_NAME\\(" "CLASS_NAME(OnnxPreview, " line "${line}")
    string(REGEX REPLACE ".*CLASS_NAME\\(([A-Za-z]+), *([0-9]+), *([A-Za-z0-9_]+)\\).*"
      "SLIPWAY_SCHEMA(\\1, \\2, \\3)\n" entry "${line}")
    string(APPEND table "${entry}")
  endforeach()
endforeach()
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/generated/onnx_schemas.inc" CONTENT "${table}" @ONLY)
target_include_directories(room_onnx_model PRIVATE "${CMAKE_BINARY_DIR}/generated")
