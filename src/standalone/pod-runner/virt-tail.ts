/**
 * What runs in place of upstream's `/usr/bin/virt-tail --logfile FILE` (cmd/virt-tail): gives all that was written to the file, and what is written to it from
 * now on, as it is, escape sequences and all. A file that begins anew, because it has become too long, is followed on. It is waited for until it may be
 * read: its owner is set after it was made, and of that `tail` may hear nothing any more.
 */
export const virtTail = [
  '/bin/sh',
  '-c',
  `while [ "$1" != --logfile ]; do shift || exit 64; done
until [ -r "$2" ]; do sleep 0.2; done
exec tail -n +1 -F -- "$2" 2>/dev/null`,
  'virt-tail',
] as const;
