// The page's files, as the binary carries them. tools/page.py writes the table from web/.
#pragma once

#include <span>
#include <string_view>

namespace interlock::server {

struct PageFile {
    std::string_view path;  // "/assets/index-Bx3kQ9.js"; "/" is the page itself.
    std::string_view type;  // Content-Type.
    std::string_view hash;  // Of the bytes: two files that differ have others.
    std::string_view bytes;
    std::string_view gzip;  // The same compressed; empty where that would be no smaller.
};

std::span<const PageFile> page_files();

}  // namespace interlock::server
