# Words of the tables. An attack succeeds if it exits with 0.

# A secret is in these files, or in the standard input.
has() { grep -aqs CANARY "$@"; }

# The system call returns no error. Arguments: its name, then numbers, texts, or `@N`: a buffer of N bytes.
call() { perl -e "$SYSTEM_CALL" fails "$@"; }

# The system call is not refused, whatever else is wrong with its arguments.
reach() { perl -e "$SYSTEM_CALL" refused "$@"; }

# A socket of this family, type and protocol can be made.
socket() { call socket "$@"; }

# A server at this address greets us with the secret.
greets() { perl -MIO::Socket::INET -e '
    my $to = IO::Socket::INET->new(PeerAddr => $ARGV[0], PeerPort => $ARGV[1], Proto => $ARGV[2] // "tcp", Timeout => 3) or exit 1;
    $to->send("x\r\n\r\n"); $to->recv(my $text, 4096) // exit 1; exit($text !~ /CANARY/)' "$@"; }

# The same for a socket of Unix; an address that starts with @ is an abstract one.
greets_at() { perl -MSocket -e '
    my $name = $ARGV[0]; $name =~ s/^@/\0/; socket(my $to, AF_UNIX, SOCK_STREAM, 0) or exit 1;
    connect($to, pack_sockaddr_un($name)) or exit 1; sysread($to, my $text, 99) or exit 1; exit($text !~ /CANARY/)' "$@"; }

SYSTEM_CALL='
    my ($is_arm, %numbers) = (`uname -m` =~ /^a/ ? 1 : 0, "
        accept4 288 242 fchownat 260 54 linkat 265 37 renameat2 316 276 setxattr 188 5 acct 163 89 add_key 248 217 adjtimex 159 171 bpf 321 280 capset 126 91 chroot 161 51
        clock_adjtime 305 266 clock_settime 227 112 clone3 435 435 delete_module 176 106 fanotify_init 300 262
        fchmodat2 452 452 file_getattr 468 468 file_setattr 469 469 finit_module 313 273 flock 73 32 fsconfig 431 431
        fsmount 432 432 fsopen 430 430 fspick 433 433 getpriority 140 141 init_module 175 105 inotify_init1 294 26 io_uring_enter 426 426
        io_uring_register 427 427 io_uring_setup 425 425 ioprio_set 251 30 kcmp 312 272 kexec_file_load 320 294
        kexec_load 246 104 keyctl 250 219 kill 62 129 listmount 458 458 lookup_dcookie 212 18 lsm_get_self_attr 459 459
        lsm_list_modules 461 461 lsm_set_self_attr 460 460 mbind 237 235 memfd_secret 447 447 migrate_pages 256 238
        mount 165 40 mount_setattr 442 442 move_mount 429 429 move_pages 279 239 msgget 68 186 name_to_handle_at 303 264
        open_by_handle_at 304 265 open_tree 428 428 open_tree_attr 467 467 perf_event_open 298 241 personality 135 92
        pidfd_getfd 438 438 pidfd_open 434 434 pidfd_send_signal 424 424 pivot_root 155 41 prlimit64 302 261
        process_madvise 440 440 process_mrelease 448 448 process_vm_readv 310 270 process_vm_writev 311 271 ptrace 101 117 quotactl 179 60
        quotactl_fd 443 443 reboot 169 142 request_key 249 218 sched_setaffinity 203 122 sched_setscheduler 144 119
        seccomp 317 277 semget 64 190 set_mempolicy 238 237 set_mempolicy_home_node 450 450 setdomainname 171 162 setgid 106 144
        setgroups 116 159 sethostname 170 161 setns 308 268 setpriority 141 140 setresuid 117 147 settimeofday 170 170
        setuid 105 146 setxattrat 463 463 shmat 30 196 shmget 29 194 socket 41 198 socketpair 53 199 statmount 457 457
        swapoff 168 225 swapon 167 224 syslog 103 116 tgkill 234 131 tkill 200 130 umount2 166 39 unknown 999 999
        unshare 272 97 userfaultfd 323 282 vhangup 153 58
    " =~ /(\w+) (\d+ \d+)/g);
    $numbers{settimeofday} = "164 170";
    my ($what, $name, @arguments) = @ARGV;
    my $number = (split / /, $numbers{$name} // die "what is $name?")[$is_arm];
    my @buffers = map { /^@(\d+)$/ ? "\0" x $1 : "$_\0" } @arguments;
    my @passed = map { $arguments[$_] =~ /^-?\d+$/ ? $arguments[$_] + 0 : $buffers[$_] } 0 .. $#arguments;
    my $result = syscall($number, @passed);
    my $error = $! + 0;
    # EPERM, EACCES and ENOSYS.
    exit($result == -1 && ($what eq "fails" || grep { $error == $_ } 1, 13, 38));
'

# What the user does in the project afterwards; returns whether this ran what is in $1, a file that it makes.
later_makes() {
    local tree
    for tree in . vendor/own sub deep/down; do
        git -C $tree status; git -C $tree diff; git -C $tree log -p -1; git -C $tree fetch; git -C $tree branch -a
    done >/dev/null 2>&1
    { git rebase --continue; git am --continue; git commit -q --allow-empty -m later; git -C vendor/own commit -q --allow-empty -m later
      git checkout -q -b later; git merge -q main; git add -A; git stash; git stash pop; git gc; } >/dev/null 2>&1 < /dev/null
    test -e "$1"
}

# The file is there, or is soon.
appears() { local i; for i in $(seq 50); do test -e "$1" && return; sleep 0.02; done; return 1; }
