import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { SafePath } from '../../../src/host/index.ts';

/**
 * What lies below a pod's directory, or below `/proc/<pid>/root`, belongs to a tenant, who may put a link in place of anything
 * between two uses of its path. So the agent goes there by `SafePath` alone, which opens each element once, without following
 * links, and has no path to give away.
 */

const folders = ['src/agent', 'src/domain-cache', 'src/launcher-client', 'src/device-plugin', 'src/host'];

const sources = folders.flatMap((folder) =>
  readdirSync(folder, { recursive: true })
    .map((file) => path.join(folder, String(file)))
    .filter((file) => file.endsWith('.ts'))
    .map((file) => ({ file, text: withoutComments(readFileSync(file, 'utf8')) })),
);

function withoutComments(text: string): string {
  return text.replace(/^\s*\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '');
}

/** Such a file has to do with tenants' directories: it names one, or what leads to one. */
const tenants =
  /SafePath|openInRoot|openBelow|openNoFollow|openTrusted|LauncherRoot|PinnedSocket|podsDir|\/root`|kubelet\/pods/;

/** Folders all of which is about launchers. */
const tenantFolders = ['src/agent/vmi/host/', 'src/launcher-client/'];

/** Whatever can take a path to the file system. Types cannot. */
const fileCalls =
  /(?:import(?!\s+type\b)[^;]*?from\s*|import\s*\(\s*|require\s*\(\s*|getBuiltinModule\s*\(\s*)['"](?:node:)?(?:fs|fs\/promises|child_process|module|vm|worker_threads)['"]|process\.binding/;

const mayCall: Readonly<Record<string, string>> = {
  'src/host/safe-path.ts': 'opens each element once and follows no link: this is the entry',
  'src/host/new-file.ts': 'takes a descriptor, never a path',
  'src/host/pty.ts': 'opens a device that was opened without following a link',
  'src/host/storage.ts': 'a thread of it opens one element of what was opened, and follows no link',
  'src/agent/node/devices/groups-in-use.ts':
    'asks whether directories of pods are there, which the kubelet alone makes',
};

/** Where a path made of a descriptor may stand: it is one that node:fs would take. */
const mayNameDescriptors: Readonly<Record<string, string>> = {
  'src/host/safe-path.ts': 'the path stays inside',
  'src/host/storage.ts': 'the path stays in a thread of it',
  'src/agent/migration-proxy/haproxy-config.ts': 'names what HAProxy is given, in files of memory',
  'src/agent/migration-proxy/haproxy-process.ts': 'the same, of its configuration',
};

/** Where an address of a SafePath may be used, and for what. */
const mayTakeAddresses: Readonly<Record<string, string>> = {
  'src/host/safe-path.ts': 'gives it',
  'src/host/guest-sockets.ts': 'connect() to a socket that was opened',
  'src/agent/vmi/host/container-disks/sidecar.ts': 'connect() to a socket that was opened',
  'src/launcher-client/connection.ts': 'connect() to a socket that was opened, by gRPC, too',
  'src/launcher-client/launcher-host.ts': 'connect() to a socket that was opened',
  'src/launcher-client/probe.ts': 'the type',
  'src/agent/vmi/host/hot-plug/attachment.ts': 'connect() to a socket that was opened',
  'src/domain-cache/pipe.ts':
    'bind() in a directory that was opened; listenUnix removes what is there without following it',
  'src/agent/migration-proxy/pod-sockets.ts': 'bind() in a directory that was opened',
  'src/agent/migration-proxy/connect-in.ts': 'connect() in a directory of the agent’s own',
};

/** Where `/proc/<pid>/root` is made up. It goes on by SafePath from there. */
const mayEnterLaunchers: Readonly<Record<string, string>> = {
  'src/agent/vmi/host/launcher-root.ts': 'the entry of hooks and facts',
  'src/agent/vmi/host/container-disks/sidecar.ts': 'images that side containers have for a root',
  'src/agent/vmi/host/hot-plug/attachment.ts':
    'the claims of an attachment pod, without following a link from there on',
  'src/agent/node/facts/host-selinux.ts': 'the label of the root itself, opened as trusted',
  'src/host/guest-sockets.ts': 'without following a link from there on',
  'src/agent/serve/rest/serial-log.ts': 'without following a link from there on',
  'src/domain-cache/notify-listeners.ts': 'place of the notify pipe',
  'src/agent/migration-proxy/pod-sockets.ts':
    'sockets of the source’s launcher, without following a link from `kubevirt` on',
  'src/agent/migration-proxy/haproxy-proxies.ts':
    'the root directory of a process: what it dials there, it dials inside of it',
  'src/host/mounts/host-mounts.ts': "the machine's own root, opened as trusted",
};

const isTenants = ({ file, text }: { file: string; text: string }) =>
  tenants.test(text) || tenantFolders.some((folder) => file.startsWith(folder));

function offenders(pattern: RegExp, allowed: Readonly<Record<string, string>>, among = sources): string[] {
  return among.filter(({ file, text }) => pattern.test(text) && !(file in allowed)).map(({ file }) => file);
}

test('the rules have read the sources, and each exception is still one', () => {
  assert.ok(sources.length > 200, `only ${sources.length} files`);
  const found = sources.filter(isTenants).map(({ file }) => file);
  assert.ok(found.length >= 18, `only ${found.length} files have to do with tenants' directories`);
  const rules: readonly (readonly [RegExp, Readonly<Record<string, string>>])[] = [
    [fileCalls, mayCall],
    [/\/proc\/self\/fd\/|\/dev\/fd/, mayNameDescriptors],
    [/ocketAddress\b/, mayTakeAddresses],
    [/\/root`/, mayEnterLaunchers],
  ];
  for (const [pattern, allowed] of rules) {
    const unused = Object.keys(allowed).filter((file) => !pattern.test(readFileSync(file, 'utf8')));
    assert.deepEqual(unused, [], `no exception for what is no more, of ${pattern}`);
  }
});

test('who has to do with directories of tenants calls the file system by SafePath alone', () => {
  assert.deepEqual(offenders(fileCalls, mayCall, sources.filter(isTenants)), []);
});

test('the rule knows each way to the file system', () => {
  for (const evasion of [
    "import { truncateSync } from 'node:fs';",
    "import fs from 'fs';",
    "import {\n  open,\n} from 'node:fs/promises';",
    "const fs = await import('node:fs');",
    "const { openSync } = require('fs');",
    "process.getBuiltinModule('fs')",
    "import { execFile } from 'node:child_process';",
    'process.binding("fs")',
  ]) {
    assert.match(evasion, fileCalls);
  }
  assert.doesNotMatch("import type { Stats } from 'node:fs';", fileCalls);
});

test('no path is made of a descriptor outside of the known files', () => {
  assert.deepEqual(offenders(/\/proc\/self\/fd\/|\/dev\/fd/, mayNameDescriptors), []);
});

test('the address of an opened socket goes to connect() and bind() only', () => {
  assert.deepEqual(offenders(/ocketAddress\b/, mayTakeAddresses), []);
});

test('the root of a launcher is entered by known files only', () => {
  assert.deepEqual(offenders(/\/root[`'"/]/, mayEnterLaunchers), []);
});

test('the name of an opened place is for launchers, which are the tenant themselves', () => {
  assert.deepEqual(offenders(/currentName\b/, { 'src/host/safe-path.ts': 'gives it' }), []);
});

test('SafePath gives away no path but those', () => {
  const members = Object.getOwnPropertyNames(SafePath.prototype).sort();
  assert.deepEqual(members, [
    'child',
    'close',
    'constructor',
    'content',
    'create',
    'currentName',
    'directory',
    'entry',
    'freeBytes',
    'identity',
    'isMountPoint',
    'isOnMountOf',
    'lastBytes',
    'link',
    'linkText',
    'makeDirectory',
    'names',
    'newSocketAddress',
    'openForReading',
    'overwrite',
    'readText',
    'removeDirectory',
    'rename',
    'setOwner',
    'socketAddress',
    'someNames',
    'stat',
    'touch',
    'unlink',
    'watchNames',
  ]);
});
