//! A link between this machine and itself, whose packets pass through a thread of the test.
//!
//! The kernel hands each packet for 10.99.0.2 to the thread by a TUN device. The thread exchanges
//! the two addresses, which changes no checksum, and hands the packet back: it comes from 10.99.0.2
//! to 10.99.0.1, which is this machine. In between, the thread may lose, keep or double it. Unlike
//! `tc netem` this needs no kernel module, and it counts what it did.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::stdio::stdin;

use crate::own_process::is_own_process_under;
use crate::random::Random;
use crate::skip::{has_program, is_root, report};

/// Makes the TUN device its standard input, sets up both devices of the namespace, and becomes the
/// command of its arguments. 0x400454ca is `TUNSETIFF`, and 0x1001 are `IFF_TUN | IFF_NO_PI`;
/// 0x8916, 0x891c, 0x8913 and 0x8914 are `SIOCSIFADDR`, `SIOCSIFNETMASK`, `SIOCGIFFLAGS` and
/// `SIOCSIFFLAGS`, and 1 is `IFF_UP`.
const LAUNCHER: &str = "
import fcntl, os, socket, struct, sys
tun = os.open('/dev/net/tun', os.O_RDWR)
fcntl.ioctl(tun, 0x400454ca, struct.pack('16sH22x', b'zcopy', 0x1001))
any_socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def address(request, text):
    packed = struct.pack('16sHH4s16x', b'zcopy', socket.AF_INET, 0, socket.inet_aton(text))
    fcntl.ioctl(any_socket, request, packed)
address(0x8916, '10.99.0.1')
address(0x891c, '255.255.255.0')
for device in b'lo', b'zcopy':
    found = fcntl.ioctl(any_socket, 0x8913, struct.pack('16sH22x', device, 0))
    flags = struct.unpack('16sH22x', found)[1]
    fcntl.ioctl(any_socket, 0x8914, struct.pack('16sH22x', device, flags | 1))
os.dup2(tun, 0)
os.execv(sys.argv[1], sys.argv[1:])
";

/// Longer than every packet, since the device takes at most 1500 bytes.
const LONGEST_PACKET: usize = 2048;

/// Returns true in a process whose network namespace contains the device of a [`Link`] and the
/// loopback device. In any other process, runs the test, which is named by its whole path, in such
/// a process, and returns false; or reports why it cannot.
pub(crate) fn is_in_namespace(test: &str) -> bool {
    if !is_root() || !has_program("unshare") || !has_program("python3") {
        return false;
    }
    if !Path::new("/dev/net/tun").exists() {
        report("the kernel has no TUN devices, through which the packets of bad networks pass");
        return false;
    }
    let launcher = ["unshare", "--net", "--", "python3", "-c", LAUNCHER];
    is_own_process_under(&launcher, test, |_| {})
}

/// What a link does to its packets. A number `n` stands for one packet in `n`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Impairments {
    pub(crate) lost_of: u64,
    pub(crate) doubled_of: u64,
    /// A late packet takes four times as long, so that others overtake it.
    pub(crate) late_of: u64,
    pub(crate) delay: Duration,
}

impl Impairments {
    pub(crate) const LOSSY: Self = Self {
        lost_of: 60,
        doubled_of: 40,
        late_of: 15,
        delay: Duration::from_millis(2),
    };

    /// Every packet is lost.
    pub(crate) const DOWN: Self = Self {
        lost_of: 1,
        ..Self::NONE
    };

    pub(crate) const NONE: Self = Self {
        lost_of: u64::MAX,
        doubled_of: u64::MAX,
        late_of: u64::MAX,
        delay: Duration::ZERO,
    };
}

/// What a link has done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) packets: u64,
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    pub(crate) late: u64,
}

/// The link of this process.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    state: Arc<Mutex<(Impairments, Counts)>>,
    /// The address of this machine on the link, where listeners are bound.
    pub(crate) here: Ipv4Addr,
    /// The address that leads to this machine over the link.
    pub(crate) there: Ipv4Addr,
}

impl Link {
    /// Starts the thread, which impairs nothing yet. It runs as long as the process.
    pub(crate) fn start(seed: u64) -> Self {
        let link = Self {
            state: Arc::new(Mutex::new((Impairments::NONE, Counts::default()))),
            here: Ipv4Addr::new(10, 99, 0, 1),
            there: Ipv4Addr::new(10, 99, 0, 2),
        };
        let flags = rustix::fs::fcntl_getfl(stdin()).unwrap();
        rustix::fs::fcntl_setfl(stdin(), flags | OFlags::NONBLOCK).unwrap();
        let forwarding = link.clone();
        thread::spawn(move || forwarding.forward(Random::new(seed)));
        link
    }

    pub(crate) fn impair(&self, impairments: Impairments) {
        self.state.lock().unwrap().0 = impairments;
    }

    /// Returns two sockets that are connected over the link.
    pub(crate) fn connect(&self) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((self.here, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let here = TcpStream::connect((self.there, port)).unwrap();
        (here, listener.accept().unwrap().0)
    }

    /// Panics unless the link has impaired a number of packets in each way.
    #[track_caller]
    pub(crate) fn assert_was_lossy(&self) {
        let counts = self.state.lock().unwrap().1;
        let Counts {
            packets,
            lost,
            doubled,
            late,
        } = counts;
        assert!(packets > 500, "{counts:?}");
        assert!(lost.min(doubled).min(late) > 3, "{counts:?}");
    }

    fn forward(&self, mut random: Random) {
        let mut packet = [0; LONGEST_PACKET];
        let mut waiting = BinaryHeap::<Reverse<(Instant, u64, Vec<u8>)>>::new();
        let mut number = 0;
        loop {
            while let Some(len) = receive(&mut packet) {
                let now = Instant::now();
                for due in self.fate(&mut random, now) {
                    let packet = exchange_addresses(&packet[..len]);
                    waiting.push(Reverse((due, number, packet)));
                    number += 1;
                }
                if waiting.peek().is_some_and(|next| next.0.0 <= now) {
                    break;
                }
            }
            while let Some(next) = waiting.peek()
                && next.0.0 <= Instant::now()
            {
                // A full queue of the kernel loses the packet, as any queue does.
                let _ = rustix::io::write(stdin(), &next.0.2);
                waiting.pop();
            }
            let next = waiting.peek();
            let timeout = next.map(|next| next.0.0.saturating_duration_since(Instant::now()));
            let timeout = timeout.map(|timeout| Timespec::try_from(timeout).unwrap());
            let _ = poll(
                &mut [PollFd::new(&stdin(), PollFlags::IN)],
                timeout.as_ref(),
            );
        }
    }

    /// Returns when each copy of a packet arrives.
    fn fate(&self, random: &mut Random, now: Instant) -> Vec<Instant> {
        let (impairments, counts) = &mut *self.state.lock().unwrap();
        counts.packets += 1;
        if random.one_in(impairments.lost_of) {
            counts.lost += 1;
            return Vec::new();
        }
        let mut due = vec![now + impairments.delay];
        if random.one_in(impairments.late_of) {
            counts.late += 1;
            due[0] += 3 * impairments.delay;
        }
        if random.one_in(impairments.doubled_of) {
            counts.doubled += 1;
            due.push(now + 2 * impairments.delay);
        }
        due
    }
}

/// Receives a packet, if one waits.
fn receive(packet: &mut [u8]) -> Option<usize> {
    match rustix::io::read(stdin(), packet) {
        Ok(len) => Some(len),
        Err(Errno::AGAIN | Errno::INTR) => None,
        Err(errno) => panic!("the TUN device: {errno}"),
    }
}

/// Exchanges source and destination of an IPv4 packet. Packets of IPv6, which the kernel sends to
/// look for neighbours, stay as they are.
fn exchange_addresses(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet[0] >> 4 == 4 {
        let (source, destination) = packet[12..20].split_at_mut(4);
        source.swap_with_slice(destination);
    }
    packet
}
