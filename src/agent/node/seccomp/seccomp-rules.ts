/**
 * Which system calls a launcher may make, as in pkg/virt-handler/seccomp/seccomp.go: the default profile of container runtimes
 * (containers/common) with `userfaultfd` allowed, which a migration that finishes by post-copy needs.
 */

const errno = { EPERM: 1, EINVAL: 22 } as const;

interface Condition {
  readonly caps?: readonly string[];
  readonly arches?: readonly string[];
}

interface SeccompArg {
  readonly index: number;
  readonly value: number;
  readonly valueTwo: number;
  readonly op: string;
}

export interface SeccompRule {
  readonly names: readonly string[];
  readonly action: 'SCMP_ACT_ALLOW' | 'SCMP_ACT_ERRNO';
  readonly args: readonly SeccompArg[] | null;
  readonly comment: string;
  readonly includes: Condition;
  readonly excludes: Condition;
  readonly errnoRet?: number;
  readonly errno?: string;
}

interface Conditions {
  readonly args?: readonly (readonly [index: number, op: string, value: number])[];
  readonly includes?: Condition;
  readonly excludes?: Condition;
  /** `null` where the other rules have an empty list. */
  readonly hasNoArgs?: true;
}

const refusedNames = `
  bdflush cachestat futex_requeue futex_wait futex_waitv futex_wake io_pgetevents io_pgetevents_time64 kexec_file_load
  kexec_load map_shadow_stack migrate_pages move_pages nfsservctl nice oldfstat oldlstat oldolduname oldstat olduname
  pciconfig_iobase pciconfig_read pciconfig_write sgetmask ssetmask swapoff swapon syscall sysfs uselib ustat vm86
  vm86old vmsplice
`;

const allowedNames = `
  _llseek _newselect accept accept4 access adjtimex alarm bind brk capget capset chdir chmod chown chown32
  clock_adjtime clock_adjtime64 clock_getres clock_getres_time64 clock_gettime clock_gettime64 clock_nanosleep
  clock_nanosleep_time64 clone clone3 close close_range connect copy_file_range creat dup dup2 dup3 epoll_create
  epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2 execve
  execveat exit exit_group faccessat faccessat2 fadvise64 fadvise64_64 fallocate fanotify_init fanotify_mark fchdir
  fchmod fchmodat fchmodat2 fchown fchown32 fchownat fcntl fcntl64 fdatasync fgetxattr flistxattr flock fork
  fremovexattr fsconfig fsetxattr fsmount fsopen fspick fstat fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate
  ftruncate64 futex futex_time64 futimesat get_mempolicy get_robust_list get_thread_area getcpu getcwd getdents
  getdents64 getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32 getitimer getpeername getpgid
  getpgrp getpid getppid getpriority getrandom getresgid getresgid32 getresuid getresuid32 getrlimit getrusage getsid
  getsockname getsockopt gettid gettimeofday getuid getuid32 getxattr inotify_add_watch inotify_init inotify_init1
  inotify_rm_watch io_cancel io_destroy io_getevents io_setup io_submit ioctl ioprio_get ioprio_set ipc keyctl kill
  landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown lchown32 lgetxattr link linkat listen
  listxattr llistxattr lremovexattr lseek lsetxattr lstat lstat64 madvise mbind membarrier memfd_create memfd_secret
  mincore mkdir mkdirat mknod mknodat mlock mlock2 mlockall mmap mmap2 mount mount_setattr move_mount mprotect
  mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 mq_unlink
  mremap msgctl msgget msgrcv msgsnd msync munlock munlockall munmap name_to_handle_at nanosleep newfstatat open
  open_tree openat openat2 pause pidfd_getfd pidfd_open pidfd_send_signal pipe pipe2 pivot_root pkey_alloc pkey_free
  pkey_mprotect poll ppoll ppoll_time64 prctl pread64 preadv preadv2 prlimit64 process_mrelease process_vm_readv
  process_vm_writev pselect6 pselect6_time64 ptrace pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv
  reboot recv recvfrom recvmmsg recvmmsg_time64 recvmsg remap_file_pages removexattr rename renameat renameat2
  restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend
  rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min
  sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval sched_rr_get_interval_time64
  sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield seccomp select semctl semget semop
  semtimedop semtimedop_time64 send sendfile sendfile64 sendmmsg sendmsg sendto set_mempolicy set_robust_list
  set_thread_area set_tid_address setfsgid setfsgid32 setfsuid setfsuid32 setgid setgid32 setgroups setgroups32
  setitimer setns setpgid setpriority setregid setregid32 setresgid setresgid32 setresuid setresuid32 setreuid
  setreuid32 setrlimit setsid setsockopt setuid setuid32 setxattr shmat shmctl shmdt shmget shutdown sigaltstack
  signal signalfd signalfd4 sigprocmask sigreturn socketcall socketpair splice stat stat64 statfs statfs64 statx
  symlink symlinkat sync sync_file_range syncfs sysinfo syslog tee tgkill time timer_create timer_delete
  timer_getoverrun timer_gettime timer_gettime64 timer_settime timer_settime64 timerfd_create timerfd_gettime
  timerfd_gettime64 timerfd_settime timerfd_settime64 times tkill truncate truncate64 ugetrlimit umask umount umount2
  uname unlink unlinkat unshare utime utimensat utimensat_time64 utimes vfork wait4 waitid waitpid write writev
`;

export const seccompRules: readonly SeccompRule[] = [
  refuse('EPERM', refusedNames),
  allow(allowedNames),
  allow('personality', { args: [[0, 'EQ', 0]] }),
  allow('personality', { args: [[0, 'EQ', 8]] }),
  allow('personality', { args: [[0, 'EQ', 131_072]] }),
  allow('personality', { args: [[0, 'EQ', 131_080]] }),
  allow('personality', { args: [[0, 'EQ', 4_294_967_295]] }),
  allow('sync_file_range2 swapcontext', { includes: { arches: ['ppc64le'] } }),
  allow('arm_fadvise64_64 arm_sync_file_range breakpoint cacheflush set_tls sync_file_range2', {
    includes: { arches: ['arm', 'arm64'] },
  }),
  allow('arch_prctl', { includes: { arches: ['amd64', 'x32'] } }),
  allow('modify_ldt', { includes: { arches: ['amd64', 'x32', 'x86'] } }),
  allow('s390_pci_mmio_read s390_pci_mmio_write s390_runtime_instr', { includes: { arches: ['s390', 's390x'] } }),
  allow('riscv_flush_icache', { includes: { arches: ['riscv64'] } }),
  allow('open_by_handle_at', { includes: { caps: ['CAP_DAC_READ_SEARCH'] } }),
  refuse('EPERM', 'open_by_handle_at', { excludes: { caps: ['CAP_DAC_READ_SEARCH'] } }),
  allow('bpf lookup_dcookie quotactl quotactl_fd setdomainname sethostname setns', {
    includes: { caps: ['CAP_SYS_ADMIN'] },
  }),
  refuse('EPERM', 'lookup_dcookie perf_event_open quotactl quotactl_fd setdomainname sethostname setns', {
    excludes: { caps: ['CAP_SYS_ADMIN'] },
  }),
  allow('chroot', { includes: { caps: ['CAP_SYS_CHROOT'] } }),
  refuse('EPERM', 'chroot', { excludes: { caps: ['CAP_SYS_CHROOT'] } }),
  allow('delete_module finit_module init_module query_module', { includes: { caps: ['CAP_SYS_MODULE'] } }),
  refuse('EPERM', 'delete_module finit_module init_module query_module', { excludes: { caps: ['CAP_SYS_MODULE'] } }),
  allow('acct', { includes: { caps: ['CAP_SYS_PACCT'] } }),
  refuse('EPERM', 'acct', { excludes: { caps: ['CAP_SYS_PACCT'] } }),
  allow('kcmp process_madvise', { includes: { caps: ['CAP_SYS_PTRACE'] } }),
  refuse('EPERM', 'kcmp process_madvise', { excludes: { caps: ['CAP_SYS_PTRACE'] } }),
  allow('ioperm iopl', { includes: { caps: ['CAP_SYS_RAWIO'] } }),
  refuse('EPERM', 'ioperm iopl', { excludes: { caps: ['CAP_SYS_RAWIO'] } }),
  allow('clock_settime clock_settime64 settimeofday stime', { includes: { caps: ['CAP_SYS_TIME'] } }),
  refuse('EPERM', 'clock_settime clock_settime64 settimeofday stime', { excludes: { caps: ['CAP_SYS_TIME'] } }),
  allow('vhangup', { includes: { caps: ['CAP_SYS_TTY_CONFIG'] } }),
  refuse('EPERM', 'vhangup', { excludes: { caps: ['CAP_SYS_TTY_CONFIG'] } }),
  refuse('EINVAL', 'socket', {
    args: [
      [0, 'EQ', 16],
      [2, 'EQ', 9],
    ],
    excludes: { caps: ['CAP_AUDIT_WRITE'] },
  }),
  allow('socket', { args: [[2, 'NE', 9]], excludes: { caps: ['CAP_AUDIT_WRITE'] } }),
  allow('socket', { args: [[0, 'NE', 16]], excludes: { caps: ['CAP_AUDIT_WRITE'] } }),
  allow('socket', { args: [[2, 'NE', 9]], excludes: { caps: ['CAP_AUDIT_WRITE'] } }),
  allow('socket', { includes: { caps: ['CAP_AUDIT_WRITE'] }, hasNoArgs: true }),
  refuse('EPERM', 'bpf', { excludes: { caps: ['CAP_SYS_ADMIN', 'CAP_BPF'] } }),
  allow('bpf', { includes: { caps: ['CAP_BPF'] } }),
  refuse('EPERM', 'perf_event_open', { excludes: { caps: ['CAP_SYS_ADMIN', 'CAP_BPF'] } }),
  allow('perf_event_open', { includes: { caps: ['CAP_PERFMON'] } }),
  allow('userfaultfd'),
];

function allow(names: string, conditions: Conditions = {}): SeccompRule {
  return rule('SCMP_ACT_ALLOW', names, conditions);
}

function refuse(name: keyof typeof errno, names: string, conditions: Conditions = {}): SeccompRule {
  return { ...rule('SCMP_ACT_ERRNO', names, conditions), errnoRet: errno[name], errno: name };
}

function rule(action: SeccompRule['action'], names: string, conditions: Conditions): SeccompRule {
  const { args = [], includes = {}, excludes = {}, hasNoArgs } = conditions;
  return {
    names: names.trim().split(/\s+/),
    action,
    args: hasNoArgs ? null : args.map(([index, op, value]) => ({ index, value, valueTwo: 0, op: `SCMP_CMP_${op}` })),
    comment: '',
    includes,
    excludes,
  };
}
