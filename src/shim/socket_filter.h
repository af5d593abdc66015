// What a sealed run cannot ask the kernel for, because no namespace bounds it.
//
//   (1) Sockets are of the kinds Unix, IPv4, IPv6 and netlink. Others, such as those to a virtual machine's host
//       (vsock), are not bounded by a network namespace. io_uring makes sockets past a filter and is not there.
//   (2) The run makes no namespaces: in one of its own it would get rights that open more of the kernel to it.
//   (3) Kernel keyrings, BPF, performance events, and typing into the terminal (TIOCSTI) are refused.
//   (4) Programs for another kind of processor, such as 32-bit ones, get ENOSYS for all they ask.
#pragma once

namespace interlock::shim {

// For good, for the calling process and those that it starts. False with errno where the kernel has no such filters.
bool enter_socket_filter();

}  // namespace interlock::shim
