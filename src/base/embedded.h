// Files that the binary carries: the schemas, the price list, the shim and the page.
//
// interlock_embed() in CMakeLists.txt adds a set of files to a target. The code that needs the set declares its
// function:
//
//     namespace interlock::embedded {
//     EmbeddedFiles sqlite_schema();  // In the order in which CMakeLists.txt lists the files.
//     }
#pragma once

#include <span>
#include <string_view>

namespace interlock {

struct EmbeddedFile {
    std::string_view name;  // Without its folder: "001_init.sql".
    std::string_view bytes;
};
using EmbeddedFiles = std::span<const EmbeddedFile>;

}  // namespace interlock

// For the source files that interlock_embed() writes: the bytes of the file are from `symbol`_begin to `symbol`_end.
#define INTERLOCK_EMBED(symbol, path)                                                                           \
    __asm__(".pushsection .rodata\n" #symbol "_begin:\n.incbin \"" path "\"\n" #symbol "_end:\n.popsection\n"); \
    extern "C" const char symbol##_begin[];                                                                     \
    extern "C" const char symbol##_end[]
