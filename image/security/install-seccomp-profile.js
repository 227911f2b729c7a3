// node install-seccomp-profile.js <file>   puts the agent's seccomp profile where a kubelet looks for it, before the agent starts
//
// Run by an init container of the overlay least-privilege: a kubelet takes profiles from files of its node only, and the agent cannot
// bring its own. All at once: a container must not start with half a profile.
import { copyFileSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';

const source = path.join(import.meta.dirname, '../../../share/virt-handler/seccomp.json');
const [target] = process.argv.slice(2);
if (target === undefined) throw new Error('usage: install-seccomp-profile.js <file>');
const draft = `${target}.new`;
mkdirSync(path.dirname(target), { recursive: true, mode: 0o755 });
rmSync(draft, { force: true });
copyFileSync(source, draft);
renameSync(draft, target);
