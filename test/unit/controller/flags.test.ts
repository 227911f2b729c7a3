import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseControllerFlags } from '../../../src/controller/index.ts';

test('flags have the defaults of upstream, a standalone scheduler makes root launchers', () => {
  const flags = parseControllerFlags([]);
  assert.deepEqual(
    [flags?.launcherImage, flags?.vmiWorkers, flags?.runtimeUser, flags?.lease?.durationMs],
    ['virt-launcher', 10, 107, 15_000],
  );
  assert.equal(parseControllerFlags(['--standalone-scheduler'])?.runtimeUser, 0);
  assert.equal(parseControllerFlags(['--leader-elect=false'])?.lease, undefined);
  assert.equal(parseControllerFlags(['--help']), undefined);
});

for (const argv of [
  ['--no-such-flag'],
  ['--standalone-runtime-user', '5'],
  ['--vmi-controller-threads', '0'],
  ['--leader-elect-resource-lock', 'configmaps'],
  ['--leader-elect-renew-deadline', '20s'],
  ['--explain-socket', 'run/virt-controller.sock'],
]) {
  test(`the command line ${argv.join(' ')} is refused`, () => {
    assert.throws(() => parseControllerFlags(argv), { name: /FlagError|ControllerFlagsError/ });
  });
}
