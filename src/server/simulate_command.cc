#include "server/simulate_command.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "engine/clock.h"
#include "net/http_server.h"
#include "server/ending_signals.h"
#include "server/listen_address.h"
#include "simulated/upstream.h"

namespace interlock::server {
namespace {

constexpr std::chrono::seconds simulator_drain_timeout{2};

// The provider's books. A line is one write to a file that is only appended to, so lines of several threads never mix.
class Books {
 public:
    explicit Books(const std::string& path)
        : descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {}
    ~Books() {
        if (is_open()) ::close(descriptor_);
    }
    Books(const Books&) = delete;
    Books& operator=(const Books&) = delete;

    bool is_open() const { return descriptor_ >= 0; }
    void write(std::string_view line) const { (void)!::write(descriptor_, line.data(), line.size()); }

 private:
    int descriptor_;
};

std::string url_of(const net::HttpServerOptions& options, std::uint16_t port) {
    const bool is_ipv6 = options.host.find(':') != std::string::npos;
    return fmt::format(fmt::runtime(is_ipv6 ? "{}://[{}]:{}" : "{}://{}:{}"), options.tls ? "https" : "http",
                       options.host, port);
}

}  // namespace

int simulate_command(const SimulateOptions& options, const cli::CliOutput& output) {
    const auto refuse = [&](int status, std::string_view why) {
        output.error(why, "");
        return status;
    };
    const auto address = parse_listen(options.listen);
    if (!address) return refuse(2, address.error());
    if (options.tls_cert.empty() != options.tls_key.empty()) {
        return refuse(2, "--tls-cert and --tls-key must be given together");
    }
    EndingSignals ending;

    std::optional<Books> books;
    if (!options.log.empty()) books.emplace(options.log);
    if (books && !books->is_open()) return refuse(1, fmt::format("{}: {}", options.log, std::strerror(errno)));
    simulated::SimulatedUpstreamOptions how{.key = options.key};
    how.script.delay_ms = options.delay_ms;
    how.script.chunk_delay_ms = options.chunk_delay_ms;
    how.script.chunks = options.chunks;
    if (books) how.books = [&books](std::string_view line) { books->write(line); };
    simulated::SimulatedUpstream upstream(std::move(how));

    net::HttpServerOptions listen{.port = address->port, .threads = options.threads};
    if (!address->host.empty()) listen.host = address->host;
    if (!options.tls_cert.empty()) listen.tls = net::TlsFiles{options.tls_cert, options.tls_key};
    engine::Clock clock;
    Log log({.level_min = LogLevel::warn,
             .clock = [&clock] { return clock.now(); },
             .write = [](std::string_view line) { (void)!::write(STDERR_FILENO, line.data(), line.size()); }});
    net::HttpServer server(
        listen, [&upstream](net::Request request) { return upstream.answer(std::move(request)); }, log);
    const auto port = server.start();
    if (!port) return refuse(1, port.error().detail);
    fmt::print(output.out, "simulated upstream on {}\n", url_of(listen, *port));
    std::fflush(output.out);

    ending.wait();
    server.drain(simulator_drain_timeout);
    return 0;
}

}  // namespace interlock::server
