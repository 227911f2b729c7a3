import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, it } from 'node:test';
import { silentLogger } from '../../../src/base/index.ts';
import { findOrphanedLaunchers } from '../../../src/launcher-client/index.ts';
import { scriptedDomain, socketFileOf } from '../../fixtures/scripted-launcher.ts';
import { type ClientsBench, eachTestHasClientsBench, key, uid } from './clients-bench.ts';

let bench: ClientsBench;
eachTestHasClientsBench((each) => {
  bench = each;
});

/** No test waits for them: a machine under load may take its time. */
const limits = { dialTimeoutMs: 3_000, infoTimeoutMs: 3_000, peerTimeoutMs: 3_000 };

async function orphansOf(isKnown: (socketFile: string) => boolean = () => false): Promise<string[]> {
  const names: string[] = [];
  const deps = { isKnown, signal: AbortSignal.timeout(10_000), logger: silentLogger };
  for await (const { domain, connection } of findOrphanedLaunchers({ podsDir: bench.podsDir, limits }, deps)) {
    connection.close();
    names.push(`${domain.Spec.Name} ${domain.Spec.Metadata.KubeVirt.UID}`);
  }
  return names;
}

describe('launchers found by their sockets alone', () => {
  it('are found with the domain they have, those that are known or have none are not', async () => {
    (await bench.launcherOf('pod-a')).domain = scriptedDomain(key, uid);
    (await bench.launcherOf('pod-b')).domain = scriptedDomain('default/known', 'uid-2');
    await bench.launcherOf('pod-c');
    const known = socketFileOf(bench.podsDir, 'pod-b');
    assert.deepEqual(await orphansOf((socketFile) => socketFile === known), [`default_vm1 ${uid}`]);
  });

  it('are found at once, whichever others hang, ended, or answer with garbage', async () => {
    await bench.rawServer(() => undefined);
    await (await bench.launcherOf('pod-ended')).stop();
    (await bench.launcherOf('pod-garbage')).domain = '['.repeat(10_000);
    (await bench.launcherOf('pod-hung')).hang('getDomain');
    (await bench.launcherOf('pod-good')).domain = scriptedDomain(key, uid);
    const abort = new AbortController();
    const deps = { isKnown: () => false, signal: abort.signal, logger: silentLogger };
    const found = findOrphanedLaunchers({ podsDir: bench.podsDir, limits }, deps);
    const first = await found.next();
    assert.ok(!first.done);
    assert.equal(first.value.connection.address.socketFile, socketFileOf(bench.podsDir, 'pod-good'));
    first.value.connection.close();
    abort.abort();
    assert.equal((await found.next()).done, true, 'the agent leaves: no other is waited for');
  });

  it('hostile entries among the pods are skipped: links, files, sockets that are none', async () => {
    const outside = await bench.launcherOf('pod-real');
    symlinkSync(path.join(bench.podsDir, 'pod-real'), path.join(bench.podsDir, 'pod-link'));
    writeFileSync(path.join(bench.podsDir, 'file'), '');
    mkdirSync(path.dirname(socketFileOf(bench.podsDir, 'pod-file')), { recursive: true });
    writeFileSync(socketFileOf(bench.podsDir, 'pod-file'), '');
    mkdirSync(path.dirname(socketFileOf(bench.podsDir, 'pod-link-socket')), { recursive: true });
    symlinkSync(outside.socketFile, socketFileOf(bench.podsDir, 'pod-link-socket'));
    outside.domain = scriptedDomain(key, uid);
    assert.equal((await orphansOf()).length, 1);
    assert.equal(outside.count('getDomain'), 1);
  });

  it('a pods directory that is not there has none', async () => {
    bench.podsDir = path.join(bench.podsDir, 'not-there');
    assert.deepEqual(await orphansOf(), []);
  });
});
