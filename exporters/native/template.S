# The libraries that models are put into, as the build of runtime/ left them: this machine's, and of 64-bit Arm that and
# the program that runs such libraries under an emulator, where they were built (cmake/CrossRuntime.cmake).
        .macro embed name, file
        .global \name
        .global \name\()_end
        .hidden \name
        .hidden \name\()_end
        .balign 64
\name:
        .incbin "\file"
\name\()_end:
        .byte 0
        .endm
        .macro absent name
        .global \name
        .global \name\()_end
        .hidden \name
        .hidden \name\()_end
\name:
\name\()_end:
        .byte 0
        .endm
        .section .rodata
        embed slipway_template, SLIPWAY_TEMPLATE
#ifdef SLIPWAY_TEMPLATE_AARCH64
        embed slipway_template_aarch64, SLIPWAY_TEMPLATE_AARCH64
        embed slipway_runner_aarch64, SLIPWAY_RUNNER_AARCH64
#else
        absent slipway_template_aarch64
        absent slipway_runner_aarch64
#endif
        .section .note.GNU-stack,"",%progbits
