// Tries to change the network that it is in, or to get at another one. Prints its links, and the commands that worked.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';

const commands = [
  'ip tuntap add mine mode tap',
  'ip link add mine type dummy',
  'ip link add mine type veth peer name yours netns 1',
  'ip link set eth0 down',
  'ip address add 10.9.9.9/24 dev eth0',
  'ip route add 10.9.9.0/24 dev eth0',
  'nft list ruleset',
  'nft flush ruleset',
  'nsenter --net=/proc/1/ns/net true',
  'unshare --net true',
];
const worked = commands.filter((command) => {
  const [program, ...args] = command.split(' ');
  try {
    return (
      execFileSync(program, args, { stdio: ['ignore', 'pipe', 'ignore'] }).toString() !== '' ||
      !command.includes('list')
    );
  } catch {
    return false;
  }
});
const settings = ['ipv4/ip_forward', 'ipv4/conf/eth0/forwarding'].map((name) => `/proc/sys/net/${name}`);
for (const file of settings) {
  try {
    fs.writeFileSync(file, '1');
    worked.push(`write ${file}`);
  } catch {
    // As it should be.
  }
}
const links = fs
  .readFileSync('/proc/net/dev', 'utf8')
  .split('\n')
  .slice(2)
  .map((line) => line.split(':')[0].trim())
  .filter(Boolean);
console.log(JSON.stringify({ links, worked }));
