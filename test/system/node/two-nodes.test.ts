import assert from 'node:assert/strict';
import { readdir, readlink } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { VirtualMachineInstance } from '../../../src/api/index.ts';
import { memberPaths, untilLogin } from '../../../src/standalone/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { askTpm, tpmCommands } from '../../fixtures/guest-tpm.ts';
import { demoVmi, NodeProcess } from '../../fixtures/node-process.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';
const name = 'walker';
const start = ['start', '--nodes', '2', '--node-name', 'box'];

describe('two nodes on one machine', { skip: needsRoot }, () => {
  let node: NodeProcess;
  let bootId = '';
  before(async () => {
    node = await NodeProcess.create();
    await node.start(start);
    // Both shall be known to have its machine, and only the first one may be taken.
    const able = ['-l', 'machine-type.node.kubevirt.io/q35=true', '-o', 'jsonpath={.items[*].metadata.name}'];
    await eventually(async () => assert.equal(await node.kubectl('get', 'nodes', ...able), 'box box-2'), 30_000);
    await node.kubectl('cordon', 'box-2');
    const { domain } = demoVmi(name).spec;
    const devices = { ...domain.devices, tpm: { persistent: true } };
    await node.apply(demoVmi(name, { domain: { ...domain, devices } }));
    await node.vmiUntil(name, (found) => found?.status?.phase === 'Running', 60_000);
    await node.kubectl('uncordon', 'box-2');
    await untilLogin(await node.serial(name), AbortSignal.timeout(60_000));
    await node.cli(['console', name], 'root\n');
    await run('(i=0; while :; do i=$((i+1)); echo $i >/tmp/beat; sleep 0.1; done) >/dev/null 2>&1 &');
    bootId = (await look()).bootId;
    await does('define');
    await does('write');
  });
  after(() => node.dispose());

  const run = async (commands: string) => (await node.cli(['console', name], `\n${commands}\n`)).stdout;
  const does = (what: keyof typeof tpmCommands) =>
    eventually(async () => assert.match(await run(askTpm(tpmCommands[what][0])), tpmCommands[what][1]), 30_000);
  /** Of its TPM, by the labels that say whose they are. */
  const claims = () => node.kubectl('get', 'pvc', '-o', 'jsonpath={range .items[*]}{.metadata.labels}{end}');
  const ownClaim = '{"cdi.kubevirt.io/applyStorageProfile":"true","persistent-state-for":"walker"}';
  /** Its boot, and how often the program in it has run at two moments. */
  async function look(): Promise<{ bootId: string; beats: readonly [number, number] }> {
    let seen = { bootId: '', beats: [0, 0] as readonly [number, number] };
    await eventually(async () => {
      const shown = await run(
        'id=$(cat /proc/sys/kernel/random/boot_id); was=$(cat /tmp/beat); while [ "$(cat /tmp/beat)" = "$was" ]; do echo waits; done; echo "boot" $id "beats" $was $(cat /tmp/beat) "."',
      );
      const [, id = '', was, is] = /boot ([0-9a-f-]{36}) beats (\d*) (\d+) \./.exec(shown) ?? assert.fail(shown);
      seen = { bootId: id, beats: [Number(was), Number(is)] };
    }, 60_000);
    return seen;
  }
  const isOn = (wanted: string) => (vmi: VirtualMachineInstance | undefined) => vmi?.status?.nodeName === wanted;

  async function limitMigrations(bandwidthPerMigration: string | null): Promise<void> {
    const change = { spec: { configuration: { migrations: { bandwidthPerMigration } } } };
    await node.kubectl('patch', 'kubevirt', 'kubevirt', '-n', 'kubevirt', '--type=merge', '-p', JSON.stringify(change));
  }

  /** The guest is the one from before, and its program goes on. */
  async function assertLives(): Promise<void> {
    const seen = await look();
    assert.equal(seen.bootId, bootId, 'the guest did not boot again');
    const [was, is] = seen.beats;
    assert.ok(is > was, `its program goes on: ${was}, ${is}`);
  }

  /** Of a guest that has moved nothing is left where it was: no process of its pod, no proxy of its streams. */
  async function assertGone(index: number): Promise<void> {
    const paths = [1, 2].map((each) => memberPaths(node.paths, each));
    await eventually(async () => {
      const selector = ['-l', `kubevirt.io=virt-launcher`, '--field-selector', 'status.phase=Running'];
      const pods = await node.kubectl('get', 'pods', ...selector, '-o', 'jsonpath={.items[*].spec.nodeName}');
      assert.equal(pods, index === 1 ? 'box-2' : 'box');
      for (const { privateDir } of paths) {
        const records = await readdir(path.join(privateDir, 'migration-proxies'));
        assert.deepEqual(
          records.filter((file) => file !== 'empty'),
          [],
        );
      }
      assert.deepEqual(await proxiesOf(node.paths.stateDir), []);
    }, 60_000);
  }

  test('each has its own agent, and status says which nodes there are', async () => {
    assert.equal(
      await node.kubectl('get', 'nodes', '-o', 'jsonpath={.items[*].status.addresses[0].address}'),
      '127.0.0.1 127.0.0.2',
    );
    const { stdout } = await node.cli(['status']);
    assert.match(stdout, /^virt-handler-2 +running/m);
    assert.match(stdout, /^node +box-2 127\.0\.0\.2 takes VMs$/m);
    assert.match(stdout, /^VMI +default\/walker Running on box$/m);
  });

  test('virt-node migrate-cancel ends what moves a guest, which stays where it is, and says so when nothing does', async () => {
    await limitMigrations('4Mi');
    const move = node.spawnCli(['migrate', name]);
    const ended = new Promise<number | null>((resolve) => move.once('close', resolve));
    let said = '';
    for (const stream of [move.stdout, move.stderr]) stream.on('data', (chunk) => (said += chunk));
    await eventually(() => assert.match(said, /^Running: .* sent, /m), 60_000);
    const cancelled = await node.cli(['migrate-cancel', name]);
    assert.equal(cancelled.code, 0, cancelled.stderr);
    assert.match(cancelled.stdout, /^default\/walker is not moved any more$/m);
    assert.equal(await ended, 1);
    assert.match(said, /default\/walker stays where it is: the migration was cancelled/);
    assert.equal(isOn('box')(await node.vmi(name)), true);
    await assertLives();
    await assertGone(2);
    const again = await node.cli(['migrate-cancel', name]);
    assert.equal(again.code, 4);
    assert.match(again.stderr, /default\/walker is not being moved/);
    await limitMigrations(null);
    await eventually(async () => assert.equal(await claims(), ownClaim), 30_000);
  });

  test('virt-node migrate moves a guest while it runs, and says what it does', async () => {
    const { code, stdout, stderr } = await node.cli(['migrate', name]);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^default\/walker is on box-2 now$/m);
    await assertLives();
    await does('read');
    await assertGone(1);
    await eventually(async () => assert.equal(await claims(), ownClaim), 30_000);
    const told = await node.cli(['explain', name]);
    assert.match(told.stdout, /^default\/walker on node box, moved away/m);
    assert.match(told.stdout, /^default\/walker on node box-2$/m);
    assert.match(told.stdout, /migration-start-due/);
  });

  test('kubectl drain brings it back: its eviction is refused until it has moved', async () => {
    const drained = await node.kubectl('drain', 'box-2', '--delete-emptydir-data', '--timeout=50s');
    assert.match(drained, /node\/box-2 drained/);
    assert.equal(isOn('box')(await node.vmi(name)), true);
    await assertLives();
    await assertGone(2);
    assert.match((await node.cli(['status'])).stdout, /^node +box-2 127\.0\.0\.2 cordoned/m);
    await node.kubectl('uncordon', 'box-2');
    await node.vmiUntil(name, (vmi) => vmi?.status?.evacuationNodeName === undefined);
  });

  test('a migration goes on when virt-node is killed in it and started again', async () => {
    assert.equal((await node.cli(['migrate', name, '--no-wait'])).code, 0);
    await eventually(
      async () => assert.match(await node.kubectl('get', 'pods', '-o', 'wide'), /box-2/, 'the target pod is there'),
      30_000,
    );
    await node.end('SIGKILL');
    await node.start(start);
    await node.vmiUntil(name, isOn('box-2'), 120_000);
    await assertLives();
    await assertGone(1);
  });

  test('a start with fewer nodes is refused while one that would go has a VM, and the VM runs on', async () => {
    await node.end('SIGTERM');
    const refused = await node.cli(['start', '--node-name', 'box', '--api-port', '26443']);
    assert.equal(refused.code, 6);
    assert.match(refused.stderr, /--nodes 1: node box-2 would go and still has default\/walker: start with --nodes 2/);
    await node.start(start);
    await assertLives();
  });
});

/** HAProxy processes of agents below this directory. */
async function proxiesOf(dir: string): Promise<string[]> {
  const pids = (await readdir('/proc')).filter((entry) => /^\d+$/.test(entry));
  const found = await Promise.all(
    pids.map(async (pid) => [pid, await readlink(`/proc/${pid}/exe`).catch(() => '')] as const),
  );
  const proxies = found.filter(([, exe]) => path.basename(exe) === 'haproxy');
  const places = await Promise.all(
    proxies.map(async ([pid]) => [pid, await readlink(`/proc/${pid}/cwd`).catch(() => '')] as const),
  );
  return places.flatMap(([pid, cwd]) => (cwd.startsWith(dir) ? [pid] : []));
}
