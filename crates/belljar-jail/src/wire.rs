//! Messages with descriptors, one per datagram.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest message.
pub const MOST: usize = 128 << 10;
/// The most descriptors with one message.
pub const MOST_DESCRIPTORS: usize = 64;

/// Room for the header and so many descriptors.
const CONTROL: usize = 16 + 4 * MOST_DESCRIPTORS + 16;

#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// Sends a message as JSON, with descriptors.
pub fn send(socket: impl AsFd, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > MOST {
        return Err(io::Error::other("a message that is too long"));
    }
    send_bytes(socket, &bytes, descriptors).map(|_| ())
}

/// Receives a message and its descriptors; `None` at the end.
pub fn receive<T: DeserializeOwned>(socket: impl AsFd) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut buffer = vec![0; MOST];
    let (length, descriptors) = receive_bytes(socket, &mut buffer)?;
    if length == 0 {
        return Ok(None);
    }
    Ok(Some((serde_json::from_slice(&buffer[..length])?, descriptors)))
}

/// Sends bytes, with descriptors on the first of them.
pub fn send_bytes(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    if descriptors.len() > MOST_DESCRIPTORS {
        return Err(io::Error::other("too many descriptors"));
    }
    let mut part = libc::iovec { iov_base: bytes.as_ptr() as *mut libc::c_void, iov_len: bytes.len() };
    let mut control = Control([0; CONTROL]);
    let raw: Vec<i32> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let length = 4 * raw.len();
    // SAFETY: all zeros is a value of it.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    if length > 0 {
        header.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: arithmetic only.
        header.msg_controllen = unsafe { libc::CMSG_SPACE(length as u32) } as _;
        // SAFETY: `control` is aligned and has room for the header and `MOST_DESCRIPTORS` numbers.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(length as u32) as _;
            std::ptr::copy_nonoverlapping(raw.as_ptr().cast(), libc::CMSG_DATA(first), length);
        }
    }
    loop {
        // SAFETY: the header refers to the buffers above, which live.
        let sent =
            unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) };
        match sent {
            0.. => return Ok(sent as usize),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

/// Receives bytes, and the descriptors that came with them; 0 at the end.
pub fn receive_bytes(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = Control([0; CONTROL]);
    // SAFETY: all zeros is a value of it.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL as _;
    let received = loop {
        // SAFETY: the header refers to the buffers above, which live.
        let received =
            unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
        match received {
            0.. => break received as usize,
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    };
    let mut descriptors = Vec::new();
    // SAFETY: the kernel wrote the control messages, and their lengths; the descriptors are new and nobody else's.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(&raw const header);
        while !next.is_null() {
            if (*next).cmsg_level == libc::SOL_SOCKET && (*next).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*next).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(next).cast::<i32>();
                for index in 0..bytes / 4 {
                    descriptors.push(OwnedFd::from_raw_fd(data.add(index).read_unaligned()));
                }
            }
            next = libc::CMSG_NXTHDR(&raw const header, next);
        }
    }
    if header.msg_flags & libc::MSG_TRUNC != 0 {
        return Err(io::Error::other("a message that is too long"));
    }
    Ok((received, descriptors))
}
