//! What this process holds: its pipes and its memory.

/// Returns the number of ends of pipes that this process holds.
pub(crate) fn n_pipe_ends() -> usize {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap();
    fds.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok())
        .filter(|target| target.to_string_lossy().starts_with("pipe:"))
        .count()
}

/// Returns the resident memory of this process in bytes, without the pages of files: the kernel maps
/// more of a program's pages at a time than the program touches.
pub(crate) fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let mut pages = statm.split(' ').map(str::parse::<usize>);
    let (resident, of_files) = (pages.nth(1).unwrap(), pages.next().unwrap());
    (resident.unwrap() - of_files.unwrap()) * rustix::param::page_size()
}
