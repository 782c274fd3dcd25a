// The text that Python is given to run ONNX models with (driver/verify/onnx_runtime.h), so that slipway needs no file
// beside itself.
        .section .rodata
        .global slipway_embedded_onnx_runtime
        .global slipway_embedded_onnx_runtime_end
        .hidden slipway_embedded_onnx_runtime
        .hidden slipway_embedded_onnx_runtime_end
slipway_embedded_onnx_runtime:
        .incbin "driver/verify/onnx_runtime.py"
slipway_embedded_onnx_runtime_end:
        .byte 0
        .section .note.GNU-stack,"",%progbits
