# perl console-guest.pl SOCKET...
# Guests as their serial lines see them: each SOCKET is listened on as QEMU does it, one client at a time, and does what the
# first line of its client says:
#   echo            everything comes back, until the client leaves
#   flood BYTES     so many bytes, as fast as they are taken, then the line is read and thrown away
#   sink BYTES      so many bytes are read, then "done" is said
# In Perl because it moves bytes with hardly any work of its own: what is measured is the agent. Prints "ready"; ends when its
# standard input does.
use strict;
use warnings;
use Socket;
use IO::Handle;

$SIG{PIPE} = 'IGNORE';
$SIG{CHLD} = 'IGNORE';
my $block = join('', map { chr(32 + $_ % 95) } 0 .. 65535);
my @listeners = map {
    socket(my $socket, AF_UNIX, SOCK_STREAM, 0) or die "socket: $!";
    bind($socket, sockaddr_un($_)) or die "bind $_: $!";
    listen($socket, 16) or die "listen $_: $!";
    $socket;
} @ARGV;
STDOUT->autoflush(1);
print "ready\n";

sub put {
    my ($socket, $bytes) = @_;
    for (my $sent = 0; $sent < length $bytes;) {
        my $more = syswrite($socket, $bytes, length($bytes) - $sent, $sent) or exit 0;
        $sent += $more;
    }
}

sub serve {
    my ($socket) = @_;
    my $line = '';
    until ($line =~ /\n/) { sysread($socket, $line, 1, length $line) or exit 0 }
    my ($what, $bytes) = split(' ', $line);
    if ($what eq 'echo') {
        while (sysread($socket, my $heard, 65536)) { put($socket, $heard) }
    } elsif ($what eq 'flood') {
        while ($bytes > 0) {
            my $part = $bytes < 65536 ? substr($block, 0, $bytes) : $block;
            put($socket, $part);
            $bytes -= length $part;
        }
        1 while sysread($socket, my $heard, 65536);
    } elsif ($what eq 'sink') {
        while ($bytes > 0) { $bytes -= sysread($socket, my $heard, 1 << 20) || exit 0 }
        put($socket, "done\n");
        1 while sysread($socket, my $heard, 65536);
    }
    exit 0;
}

while (1) {
    my $wanted = '';
    vec($wanted, fileno($_), 1) = 1 for @listeners, \*STDIN;
    next unless select(my $ready = $wanted, undef, undef, undef) > 0;
    exit 0 if vec($ready, fileno(STDIN), 1);
    for my $listener (grep { vec($ready, fileno($_), 1) } @listeners) {
        accept(my $client, $listener) or next;
        my $child = fork();
        if (defined $child && $child == 0) {
            close($_) for @listeners;
            close(STDIN);
            serve($client);
        }
        close($client);
    }
}
