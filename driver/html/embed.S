// The style and the script of pages (driver/html/page.h), so that a page is one file and slipway needs none beside
// itself. The parts of the script follow each other.
        .section .rodata
        .macro embed symbol, files:vararg
        .global slipway_embedded_\symbol
        .global slipway_embedded_\symbol\()_end
        .hidden slipway_embedded_\symbol
        .hidden slipway_embedded_\symbol\()_end
slipway_embedded_\symbol:
        .irp file, \files
        .incbin "\file"
        .endr
slipway_embedded_\symbol\()_end:
        .byte 0
        .endm

        embed page_style, "driver/html/page.css"
        embed page_script, "driver/html/page.js", "driver/html/charts.js", "driver/html/treemap.js", \
          "driver/html/graph.js", "driver/html/main.js"

        .section .note.GNU-stack,"",%progbits
