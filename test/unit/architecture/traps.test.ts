import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

/** Calls of Node.js that do harm, found by measuring; what to do instead. */
const traps: Readonly<Record<string, { readonly call: RegExp; readonly instead: string }>> = {
  'getPeerX509Certificate loses 5 KB of native memory for each connection in Node.js 20': {
    call: /\.getPeerX509Certificate\(/,
    instead: 'new X509Certificate(socket.getPeerCertificate().raw)',
  },
};

const sources = readdirSync('src', { recursive: true })
  .map((file) => path.join('src', String(file)))
  .filter((file) => /\.tsx?$/.test(file));

for (const [why, { call, instead }] of Object.entries(traps)) {
  test(`${why}: nothing calls it`, () => {
    const found = sources.filter((file) => call.test(readFileSync(file, 'utf8')));
    assert.deepEqual(found, [], `use ${instead}`);
  });
}

/** Why these rename by themselves: all others replace files with `replaceFile`, which also outlives a power failure. */
const renaming: Readonly<Record<string, string>> = {
  'src/host/replace-file.ts': 'the mechanism itself',
  'src/host/safe-path.ts': 'names in a directory that was opened',
  'src/agent/migration-proxy/pod-sockets.ts': 'a socket, in a directory that was opened',
  'src/http/socket-file.ts': 'a socket',
  'src/agent/vmi/host/network/small-files.ts': 'the same in directories of a tenant; they end with the pod',
  'src/agent/vmi/host/work/checkpoint-files.ts': 'sets aside what is torn',
  'src/domain-cache/ghost-records.ts': 'sets aside what is torn',
  'src/host/record-files.ts': 'sets aside what is torn',
  'src/launcher/cmd-server/server.ts': 'a socket',
  'src/launcher/disks/container-disk.ts': 'a link of the pod',
  'src/launcher/disks/image.ts': 'an image that ends with the pod',
  'src/launcher/lifecycle/state-file.ts': 'sets aside what is torn',
  'src/standalone/pod-runner/object-volume.ts':
    'a key that gets owner and mode before the pod sees it; it ends with the pod',
  'src/standalone/pod-runner/image-disk.ts': 'a disk into the draft of an image, which is synced whole',
  'src/standalone/pod-runner/images.ts': 'a directory, synced with all that is in it',
  'src/standalone/storage/volume-files.ts': 'disks and directories, synced before',
  'src/standalone/supervisor/capabilities.ts': 'files that a script of the pod made, synced',
};

test('a file is put in its place by replaceFile: no other rename without a reason', () => {
  const found = sources.filter((file) => /\brename(?:Sync)?\(/.test(readFileSync(file, 'utf8')));
  assert.deepEqual(
    found.filter((file) => !(file in renaming)),
    [],
    'use replaceFile of src/host, or say here why not',
  );
  assert.deepEqual(
    Object.keys(renaming).filter((file) => !found.includes(file)),
    [],
    'these rename no more',
  );
});

test('no comment cites a text that readers do not have', () => {
  const sources = ['src', 'test', 'bench', 'scripts'].flatMap((folder) =>
    readdirSync(folder, { recursive: true })
      .map((file) => path.join(folder, String(file)))
      .filter((file) => /\.(ts|tsx|mjs)$/.test(file)),
  );
  assert.ok(sources.length > 1000, `only ${sources.length} files`);
  const wrong = sources.filter((file) => /\bspec \d/i.test(readFileSync(file, 'utf8')));
  assert.deepEqual(wrong, [], 'cite the file of upstream, a public document, or the fact itself');
});
