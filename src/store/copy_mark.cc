#include "store/copy_mark.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "store/postgres_pool.h"
#include "store/row_json.h"

namespace interlock::store {
namespace {

std::string path_of_mark(const std::string& directory) { return directory + "/migration.json"; }

std::string to_text(const CopyMark& mark) {
    std::string text;
    write_json(text, mark);
    return text;
}

Result<std::optional<CopyMark>, ReadError> from_text(const std::string& text, const std::string& where) {
    CopyMark mark;
    if (read_json(text, mark)) return std::optional(std::move(mark));
    return fail(
        ReadError{fmt::format("{} marks an unfinished copy, but not of what; begin anew with an empty store", where)});
}

ReadError cannot(const char* what, const std::string& path) {
    return {fmt::format("cannot {} {}: {}", what, path, std::strerror(errno))};
}

// That a name came or went is on the disk once its directory is.
Result<void, ReadError> sync_directory(const std::string& directory) {
    const int file = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool synced = file >= 0 && ::fsync(file) == 0;
    const ReadError error = cannot("sync", directory);
    if (file >= 0) ::close(file);
    if (!synced) return fail(error);
    return {};
}

}  // namespace

// ---- in a directory -----------------------------------------------------------------------------------------------

Result<std::optional<CopyMark>, ReadError> read_copy_mark(const std::string& directory) {
    const std::string path = path_of_mark(directory);
    std::ifstream file(path);
    if (!file && ::access(path.c_str(), F_OK) != 0 && errno == ENOENT) return std::optional<CopyMark>();
    if (!file) return fail(cannot("read", path));
    std::stringstream text;
    text << file.rdbuf();
    return from_text(text.str(), path);
}

Result<void, ReadError> write_copy_mark(const std::string& directory, const CopyMark& mark) {
    const std::string path = path_of_mark(directory);
    const std::string text = to_text(mark);
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) return fail(cannot("write", path));
    const bool written =
        ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(file) == 0;
    const ReadError error = cannot("write", path);
    ::close(file);
    if (!written) return fail(error);
    return sync_directory(directory);
}

Result<void, ReadError> remove_copy_mark(const std::string& directory) {
    const std::string path = path_of_mark(directory);
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail(cannot("remove", path));
    return sync_directory(directory);
}

// ---- in a database ------------------------------------------------------------------------------------------------

namespace {

Result<void, ReadError> ask(PostgresPool& database, const PostgresRequest& request) {
    auto connection = database.lend();
    if (!connection) return fail(ReadError{connection.error().detail});
    const auto done = (*connection)->exchange({request}, database.server().exchange_timeout);
    if (!done) return fail(ReadError{done.error().detail});
    return {};
}

}  // namespace

Result<std::optional<CopyMark>, ReadError> read_copy_mark(Snapshot& database) {
    std::optional<std::string> text;
    const auto read = database.query("select value from facts where name = 'migration'",
                                     [&](const std::vector<Value>& row) { text = std::get<std::string>(row.front()); });
    if (!read) return fail(read.error());
    if (!text) return std::optional<CopyMark>();
    return from_text(*text, "'migration' in the table facts");
}

Result<void, ReadError> write_copy_mark(PostgresPool& database, const CopyMark& mark) {
    static const PostgresStatement write{
        "insert into facts(name, value) values ('migration', $1::text) on conflict (name) do update set value = "
        "excluded.value"};
    PostgresRequest request{&write};
    request.parameters.text(to_text(mark));
    return ask(database, request);
}

Result<void, ReadError> remove_copy_mark(PostgresPool& database) {
    static const PostgresStatement remove{"delete from facts where name = 'migration'"};
    return ask(database, {&remove});
}

std::string unfinished_copy(const CopyMark& mark) {
    return fmt::format(
        "it holds a copy of {} that is not finished; finish it by the same 'interlock migrate', or begin anew with an "
        "empty store",
        mark.from);
}

}  // namespace interlock::store
