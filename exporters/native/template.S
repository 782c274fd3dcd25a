# The library that models are put into, as the build of runtime/ left it.
        .section .rodata
        .global slipway_template
        .global slipway_template_end
        .hidden slipway_template
        .hidden slipway_template_end
        .balign 64
slipway_template:
        .incbin SLIPWAY_TEMPLATE
slipway_template_end:
        .byte 0
        .section .note.GNU-stack,"",%progbits
