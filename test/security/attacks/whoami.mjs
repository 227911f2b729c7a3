// Who the attacker really is: an attack by root in disguise would prove nothing.
import { readFileSync } from 'node:fs';

const effective = /^CapEff:\s*(\w+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1];
console.log(
  JSON.stringify({
    uid: process.getuid(),
    gid: process.getgid(),
    groups: process.getgroups(),
    capabilities: effective,
  }),
);
