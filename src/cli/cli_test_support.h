// Shared by the tests of commands: a server that records requests and answers from a script, and an output that keeps
// its text.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/calendar.h"
#include "cli/context.h"

namespace interlock::cli {

inline const Instant noon = *from_iso8601("2026-11-15T12:00:00Z");

struct FakeServer {
    using Reply = Result<HttpResponse, TransportError>;

    std::vector<HttpRequest> seen = {};
    std::deque<Reply> replies = {};  // Taken one by one; the last one stays.
    std::vector<std::string> dialled = {};
    std::vector<std::chrono::milliseconds> slept = {};
    Instant now = noon;

    void answers(int status, std::string body, HeaderList headers = {}) {
        replies.push_back(HttpResponse{.status = status, .headers = std::move(headers), .body = std::move(body)});
    }
    void fails(TransportError::Kind kind) { replies.push_back(fail(TransportError{kind, "no luck"})); }

    Reply reply_to(const HttpRequest& request) {
        seen.push_back(request);
        if (replies.empty()) return HttpResponse{.status = 200, .headers = {}, .body = "{}"};
        Reply reply = replies.front();
        if (replies.size() > 1) replies.pop_front();
        return reply;
    }
    Platform world() {
        return {.now = [this] { return now; },
                .sleep =
                    [this](std::chrono::milliseconds length) {
                        slept.push_back(length);
                        now += length;
                    },
                .fresh_key = [made = 0]() mutable { return "key-" + std::to_string(++made); },
                .dial = [this](const std::string& url, std::chrono::milliseconds) { return dial(url); }};
    }
    std::unique_ptr<Transport> dial(const std::string& url);
};

class FakeTransport : public Transport {
 public:
    explicit FakeTransport(FakeServer& server) : server_(server) {}
    Result<HttpResponse, TransportError> send(const HttpRequest& request) override { return server_.reply_to(request); }
    Result<HttpResponse, TransportError> stream(const HttpRequest& request,
                                                const std::function<bool(std::string_view)>& on_piece) override {
        auto reply = server_.reply_to(request);
        if (reply && reply->status < 300) on_piece(reply->body);
        return reply;
    }

 private:
    FakeServer& server_;
};

inline std::unique_ptr<Transport> FakeServer::dial(const std::string& url) {
    dialled.push_back(url);
    return std::make_unique<FakeTransport>(*this);
}

inline std::string header_of(const HttpRequest& request, std::string_view name) {
    return HttpResponse{.status = 0, .headers = request.headers, .body = {}}.header(name);
}

// A stream that keeps what was written to it.
class Kept {
 public:
    Kept() : file_(open_memstream(&text_, &size_)) {}
    ~Kept() {
        std::fclose(file_);
        std::free(text_);
    }
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;

    std::FILE* file() { return file_; }
    std::string text() {
        std::fflush(file_);
        return {text_, size_};
    }

 private:
    char* text_ = nullptr;
    std::size_t size_ = 0;
    std::FILE* file_;
};

class CliTest : public testing::Test {
 protected:
    ExitCode run(const std::vector<std::string>& words, const Invocation& invocation = {}) {
        const CliCommand* command = find_command(words);
        EXPECT_NE(command, nullptr) << words[0];
        return cli::run(context, *command, invocation);
    }
    // A fresh directory, gone with the test.
    std::string directory() {
        if (directory_.empty()) {
            char path[] = "/tmp/interlock-cli-XXXXXX";
            directory_ = mkdtemp(path);
        }
        return directory_;
    }
    ~CliTest() override {
        if (!directory_.empty()) std::filesystem::remove_all(directory_);
    }

    FakeServer server;
    Kept out;
    Kept err;
    Context context{.output = {.in = stdin, .out = out.file(), .err = err.file()},
                    .environment = {.url = "http://fake", .key = "ilk_a_b"},
                    .settings = {},
                    .world = server.world(),
                    .version = "0.1.0"};

 private:
    std::string directory_;
};

}  // namespace interlock::cli
