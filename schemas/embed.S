// Puts the data files of schemas/ into the binary as they are, so that slipway needs no file beside itself and they
// cost
// nothing until read: the pages are mapped on demand. schemas/embedded.h gives them types.
        .section .rodata
        .macro embed symbol, file
        .global slipway_embedded_\symbol
        .global slipway_embedded_\symbol\()_end
        .hidden slipway_embedded_\symbol
        .hidden slipway_embedded_\symbol\()_end
        .balign 64
slipway_embedded_\symbol:
        .incbin "\file"
slipway_embedded_\symbol\()_end:
        .byte 0
        .endm

        embed ops, "schemas/ops.txt"
        embed ops_extra, "schemas/ops_extra.txt"
        embed op_traits, "schemas/op_traits.txt"
        embed op_numbers, "schemas/op_numbers.txt"
        embed ort_kernels, "schemas/ort_kernels.txt"
        embed transformers_names, "schemas/transformers_names.txt"

        .section .note.GNU-stack,"",%progbits
