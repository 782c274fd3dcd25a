# Where an exported model's plan and weights come to lie: a section of its own, in a read-only segment of its own
# (template.ld), so that the exporter can move its bytes without touching anything else. Assembler, so that no compiler
# folds the content.
        .section .slipway_payload,"a",@progbits
        .p2align 16
        .globl  slipway_payload
        .hidden slipway_payload
        .type   slipway_payload, @object
        .size   slipway_payload, 64
slipway_payload:
        .ascii  "SLIPWAY0"
        .zero   56
        .section .note.GNU-stack,"",%progbits
