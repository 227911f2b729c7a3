// node image/root.mjs <folder> <architecture> [--update]   puts together what image/Containerfile copies: <folder>/system and <folder>/agent.
// Run by image/build.sh after `npm run build`; the same sources and lock give the same bytes, modes and times.
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  lutimesSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { writeContents } from './contents.mjs';
import { debianFiles, forgetOthers, ImageError, koffiBinary, nodeFile, updateLock } from './parts.mjs';

/** The agent gives devices and disks to `qemu` by its number; the name is for people who look at files. */
const passwd = 'root:x:0:0:root:/root:/usr/sbin/nologin\nqemu:x:107:107:qemu:/:/usr/sbin/nologin\n';
const group = 'root:x:0:\nqemu:x:107:\n';
const mountPoints = ['dev', 'etc/virt-controller', 'etc/virt-handler', 'pods', 'proc', 'run', 'sys', 'tmp', 'var/lib'];
/** Of the Debian packages: what programs are linked with, those libraries' own needs, `ip`, `nft`, `haproxy`, `tar`, and the words of the licences. */
const kept = [
  /\/ld-linux-[\w-]+\.so\.\d$/,
  /\/lib(c|dl|m|pthread)\.so\.\d$/,
  /\/libgcc_s\.so\.1$/,
  /\/libstdc\+\+\.so\.6(\.[\d.]+)?$/,
  /^usr\/(bin\/(ip|tar)|sbin\/(nft|haproxy))$/,
  /\/lib(acl|selinux)\.so\.\d$|\/libacl\.so\.[\d.]+$/,
  /\/lib(bpf|bsd|cap|edit|elf|gmp|jansson|md|mnl|nftables|nftnl|tinfo|xtables|z)\.so\.\d+(\.[\d.]+)?$/,
  /\/lib(crypt|crypto|gcrypt|gpg-error|lua5\.3|lz4|lzma|opentracing|opentracing-c-wrapper|pcre2-8|ssl|systemd|zstd)\.so\.\d+(\.[\d.]+)?$/,
  /\/libelf-[\d.]+\.so$/,
  /^usr\/share\/doc\/[^/]+\/copyright$/,
  // One package's folder is a link to another's, which has the words for both.
  /^usr\/share\/doc\/[^/]+$/,
  /^(lib(64)?|s?bin)$/,
];

function place(root, file, content, mode = 0o644) {
  const target = path.join(root, file);
  mkdirSync(path.dirname(target), { recursive: true });
  writeFileSync(target, content);
  chmodSync(target, mode);
}

function filesOf(root) {
  return readdirSync(root, { recursive: true, withFileTypes: true }).map((entry) => ({
    entry,
    relative: path.relative(root, path.join(entry.parentPath, entry.name)),
  }));
}

function unpackDebian(root, packages) {
  // Debian 12 packages still name /lib and /bin: one /usr, with links to it.
  for (const name of ['lib', 'lib64', 'bin', 'sbin']) {
    mkdirSync(path.join(root, 'usr', name), { recursive: true });
    symlinkSync(`usr/${name}`, path.join(root, name));
  }
  for (const { file } of packages) {
    const tar = execFileSync('dpkg-deb', ['--fsys-tarfile', file], { maxBuffer: 1 << 30 });
    execFileSync('tar', ['-x', '--keep-directory-symlink', '--no-same-owner', '-C', root], { input: tar });
  }
  for (const { entry, relative } of filesOf(root)) {
    if (!entry.isDirectory() && !kept.some((pattern) => pattern.test(relative))) rmSync(path.join(root, relative));
  }
  dropEmpty(root);
  // arm64 has its loader in /lib.
  if (!existsSync(path.join(root, 'usr/lib64'))) rmSync(path.join(root, 'lib64'));
}

function dropEmpty(dir) {
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    if (entry.isDirectory()) dropEmpty(path.join(dir, entry.name));
  }
  if (readdirSync(dir).length === 0) rmSync(dir, { recursive: true });
}

function makeSystem(root, packages, node) {
  mkdirSync(root, { recursive: true });
  unpackDebian(root, packages);
  const pick = ['-x', '-z', '-f', node.file, '--strip-components=1', '--no-same-owner', '-C', path.join(root, 'usr')];
  execFileSync('tar', [...pick, 'package/bin/node']);
  const license = execFileSync('tar', ['-x', '-z', '-O', '-f', node.file, 'package/LICENSE'], { maxBuffer: 1 << 24 });
  place(root, 'usr/share/doc/nodejs/copyright', license);
  place(root, 'etc/passwd', passwd);
  place(root, 'etc/group', group);
  place(root, 'etc/nsswitch.conf', 'hosts: files dns\n');
  for (const dir of mountPoints) mkdirSync(path.join(root, dir), { recursive: true });
  mkdirSync(path.join(root, 'var'), { recursive: true });
  symlinkSync('../run', path.join(root, 'var/run'));
}

const home = 'usr/lib/virt-handler';
const installer = 'install-seccomp-profile.js';
const billFile = 'usr/share/sbom/virt-handler.cdx.json';
const timeSeconds = Number(process.env.SOURCE_DATE_EPOCH ?? 0);

/** The image has no source maps. */
function withoutMap(file) {
  return readFileSync(file, 'utf8').replace(/\n\/\/# sourceMappingURL=.*\n?$/, '\n');
}

/** The agent, and what keeps the streams of migrations for it; the controller, and what its exporter pods run. */
const programs = ['virt-handler', 'virt-migration-relay', 'virt-controller', 'virt-exportserver'];

/** With its parts beside it, and its name in the path of programs. */
function placeProgram(root, program) {
  const bundle = `dist/bin/${program}.js`;
  if (!existsSync(bundle)) throw new ImageError(`${bundle} is missing: npm run build`);
  place(root, `${home}/bin/${program}.js`, `#!/usr/bin/node\n${withoutMap(bundle)}`, 0o755);
  const parts = path.join(path.dirname(bundle), program);
  const names = existsSync(parts) ? readdirSync(parts) : [];
  for (const name of names.filter((file) => file.endsWith('.js')).sort())
    place(root, `${home}/bin/${program}/${name}`, withoutMap(path.join(parts, name)));
  mkdirSync(path.join(root, 'usr/bin'), { recursive: true });
  symlinkSync(`../lib/virt-handler/bin/${program}.js`, path.join(root, 'usr/bin', program));
}

async function makeAgent(root, arch, packages) {
  for (const program of programs) placeProgram(root, program);
  cpSync('dist/web', path.join(root, home, 'web'), { recursive: true });
  const { name, version, type } = JSON.parse(readFileSync('package.json', 'utf8'));
  place(root, `${home}/package.json`, `${JSON.stringify({ name, version, type })}\n`);
  place(root, 'usr/share/virt-handler/seccomp.json', readFileSync('image/security/seccomp.json'));
  place(root, 'usr/share/virt-handler/apparmor.profile', readFileSync('image/security/apparmor.profile'));
  place(root, `${home}/bin/${installer}`, readFileSync(`image/security/${installer}`));
  copyKoffi(path.join(root, home, 'node_modules'), arch, packages.koffi.folder);
  const dir = path.join(root, 'usr/share/doc/virt-handler');
  await writeContents({ dir, sbomFile: path.join(root, billFile), arch, timeSeconds }, packages);
}

/** The door to system calls: its script and the one binary of this machine. */
function copyKoffi(modules, arch, folder) {
  const nodeArch = arch === 'amd64' ? 'x64' : arch;
  const copy = (from, to) => cpSync(from, path.join(modules, to), { recursive: true });
  for (const file of ['package.json', 'index.js', 'index.cjs', 'LICENSE.txt', 'lib', 'src'])
    copy(path.join('node_modules/koffi', file), `koffi/${file}`);
  for (const file of ['package.json', 'index.js', `linux_${nodeArch}`])
    copy(path.join(folder, file), `@koromix/koffi-linux-${nodeArch}/${file}`);
  for (const { entry, relative } of filesOf(path.join(modules, 'koffi'))) {
    if (entry.isFile() && !/\.(c?js|json|txt)$/.test(relative)) rmSync(path.join(modules, 'koffi', relative));
  }
  dropEmpty(path.join(modules, 'koffi'));
}

/** Nothing of the machine that built it: one time, and rights by what a file is. */
function normalize(root, time) {
  for (const { entry, relative } of [{ entry: statSync(root), relative: '' }, ...filesOf(root)]) {
    const file = path.join(root, relative);
    if (!entry.isSymbolicLink()) {
      // A library is loaded, whatever its package says of it.
      const isProgram = (statSync(file).mode & 0o100) !== 0 && !relative.includes('/node_modules/');
      const executable = entry.isDirectory() || isProgram;
      chmodSync(file, relative === 'tmp' ? 0o1777 : executable ? 0o755 : 0o644);
    }
    lutimesSync(file, time, time);
  }
}

const [folder, arch, flag] = process.argv.slice(2);
try {
  if (!folder || !arch) throw new ImageError('usage: node image/root.mjs <folder> <architecture> [--update]');
  if (flag === '--update') updateLock(arch);
  const packages = debianFiles(arch);
  const node = nodeFile(arch);
  const koffi = koffiBinary(arch);
  forgetOthers([...packages.map(({ file }) => file), node.file, ...koffi.files]);
  for (const part of ['system', 'agent']) rmSync(path.join(folder, part), { recursive: true, force: true });
  makeSystem(path.join(folder, 'system'), packages, node);
  await makeAgent(path.join(folder, 'agent'), arch, { packages, node, koffi });
  for (const part of ['system', 'agent']) normalize(path.join(folder, part), timeSeconds);
  cpSync(path.join(folder, 'agent', billFile), path.join(folder, 'virt-handler.cdx.json'));
} catch (error) {
  if (!(error instanceof ImageError)) throw error;
  console.error(`image: ${error.message}`);
  process.exitCode = 1;
}
