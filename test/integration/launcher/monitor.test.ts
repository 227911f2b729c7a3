import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { describe, type TestContext, test } from 'node:test';
import { eventually, stays } from '../../fixtures/eventually.ts';
import { MonitorPod } from '../../fixtures/launcher-monitor.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pid namespaces: this test needs root';
const shells = [['sh'], ['busybox', 'sh']].filter(([name]) => existsSync(`/usr/bin/${name}`));
/** Serves until SIGTERM, which it answers with this code. */
const serving = (code: number) => `trap 'exit ${code}' TERM
: >"$DIR/serving"
while :; do sleep 0.05; done`;

for (const shell of shells) {
  describe(`virt-launcher-monitor, run by ${shell.join(' ')}`, { skip: needsRoot }, () => {
    function start(t: TestContext, launcher: string, args: readonly string[] = [], files: readonly string[] = []) {
      const pod = new MonitorPod(launcher, { shell, args, files });
      t.after(() => pod.close());
      return pod;
    }

    test('the launcher gets all arguments but the one for the monitor, and its exit code is the container’s', async (t) => {
      const args = ['--keep-after-failure=false', '--name', 'a b', '--uid=*', ''];
      const pod = start(t, 'for word in "$@"; do echo "<$word>"; done; exit 0', args);
      assert.equal(await pod.exited, 0);
      assert.equal(pod.output, `<--container-disk-dir=${pod.at('disks')}>\n<--name>\n<a b>\n<--uid=*>\n<>\n`);
    });

    test('SIGTERM is passed on, and the launcher says how it ends', async (t) => {
      const pod = start(t, serving(7));
      await eventually(() => assert.ok(pod.has('serving')));
      pod.terminate();
      assert.equal(await pod.exited, 7);
      assert.match(pod.output, /"msg":"virt-launcher ended with code 7"/);
      assert.equal(pod.read('message'), '', 'a launcher that ends by itself has its own words');
    });

    test('SIGTERM counts from the first instruction on: a launcher that does not listen yet has not failed', async (t) => {
      for (let round = 0; round < 6; round++) {
        const pod = start(t, 'sleep 30; : >"$DIR/ran"');
        await pod.terminateWhenHeard();
        assert.equal(await pod.exited, 0);
        assert.equal(pod.has('ran'), false);
        assert.equal(pod.output, '');
      }
    });

    test('a signal that came while the launcher’s process was being made is found by it', async (t) => {
      const pod = start(t, ': >"$DIR/ran"', [], ['private/asked-to-end']);
      assert.equal(await pod.exited, 143);
      assert.equal(pod.has('ran'), false);
    });

    test('what is left to process 1 is waited for while the launcher runs', async (t) => {
      const pod = start(t, `(sh -c ': >"$DIR/orphan"' &)\n${serving(0)}`);
      await eventually(() => assert.ok(pod.has('orphan') && pod.has('serving')));
      await eventually(() => assert.deepEqual(pod.zombies, []));
      pod.terminate();
      assert.equal(await pod.exited, 0);
    });

    test('after a launcher that was killed QEMU writes out its disks, the disks’ containers may end, and the pod says why', async (t) => {
      const pod = start(
        t,
        `: >"$DIR/disks/disk_0.sock"; : >"$DIR/disks/other"
while [ ! -x "$DIR/qemu-system-x86_64" ]; do sleep 0.02; done
(exec "$DIR/qemu-system-x86_64" &)
while [ ! -e "$DIR/qemu" ]; do sleep 0.02; done
kill -KILL $$`,
      );
      pod.addProgram(
        'qemu-system-x86_64',
        `trap ': >"$DIR/flushed"; exit 0' TERM; : >"$DIR/qemu"; while :; do sleep 0.05; done`,
      );
      assert.equal(await pod.exited, 137);
      assert.ok(pod.has('flushed'));
      assert.equal(pod.has('disks/disk_0.sock'), false);
      assert.ok(pod.has('disks/other'));
      assert.match(pod.read('message'), /SIGKILL, most likely because the container ran out of memory/);
      const lines = pod.output.split('\n').filter((line) => line.startsWith('{'));
      assert.deepEqual(
        lines.map((line) => JSON.parse(line).msg),
        ['virt-launcher ended with code 137'],
      );
    });

    test('a failed launcher’s container is kept when its VMI asks for it, until SIGTERM', async (t) => {
      const pod = start(t, 'exit 2', ['--keep-after-failure']);
      await eventually(() => assert.match(pod.output, /keep-launcher-alive-after-failure/));
      await stays(() => assert.notEqual(pod.pid, undefined), 300);
      pod.terminate();
      assert.equal(await pod.exited, 2);
    });
  });
}
