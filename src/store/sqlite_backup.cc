#include "store/sqlite_backup.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include <fmt/format.h>

#include "base/sha256.h"
#include "store/sqlite_db.h"
#include "store/sqlite_file.h"

namespace interlock::store {
namespace {

// Empty, or what went wrong.
std::string copy(sqlite3* from, const std::string& file) {
    OpenedDatabase to = open_database(file, SQLITE_OPEN_READWRITE, "");
    if (to.rc != SQLITE_OK) return error_text(to.db.get());
    sqlite3_backup* backup = sqlite3_backup_init(to.db.get(), "main", from, "main");
    if (backup == nullptr) return error_text(to.db.get());
    sqlite3_backup_step(backup, -1);  // In one piece: others write meanwhile, and pieces would have to begin anew.
    const int rc = sqlite3_backup_finish(backup);
    return rc == SQLITE_OK ? "" : error_text(to.db.get());
}

Result<BackupFacts, ReadError> look_at(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    std::vector<char> buffer(1u << 20);
    Sha256Hasher hash;
    BackupFacts facts;
    while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0) {
        hash.add({buffer.data(), static_cast<std::size_t>(in.gcount())});
        facts.bytes += in.gcount();
    }
    if (in.bad()) return fail(ReadError{fmt::format("{} cannot be read back", file)});
    facts.sha256 = to_hex(hash.finish());
    return facts;
}

}  // namespace

Result<BackupFacts, ReadError> back_up(const std::string& directory, const std::string& file) {
    // Taken first, so that nothing that is there is ever written over.
    const int taken = ::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (taken < 0) {
        return fail(ReadError{errno == EEXIST ? fmt::format("{} is there already; name a file that is not", file)
                                              : fmt::format("{} cannot be made: {}", file, std::strerror(errno))});
    }
    auto from = open_to_read(directory, "");
    std::string why = from ? "" : from.error().detail;
    // Read before the copy, so that the copy has it.
    std::string head;
    constexpr const char* head_sql =
        "select coalesce((select number || ':' || lower(hex(hash)) from (select seal_number as number, seal_hash as "
        "hash "
        "from feed_pages where org = 1 and last_seq = (select max(last_seq) from feed_pages where org = 1) union all "
        "select number, hash from seals where org = 1 and number = (select max(number) from seals where org = 1)) "
        "where number > 0 order by number desc limit 1), '')";
    if (why.empty() && !read_text(from->get(), head_sql, head)) why = error_text(from->get());
    if (why.empty()) why = copy(from->get(), file);
    if (why.empty() && ::fsync(taken) != 0) why = std::strerror(errno);
    ::close(taken);
    if (!why.empty()) {
        ::unlink(file.c_str());
        return fail(ReadError{why});
    }
    auto facts = look_at(file);
    if (facts) facts->head = std::move(head);
    return facts;
}

}  // namespace interlock::store
