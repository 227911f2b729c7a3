import assert from 'node:assert/strict';
import { accessSync, constants, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { MediatedSysfs } from '../../../../src/agent/node/devices/mediated-machine.ts';
import { errorCode } from '../../../../src/base/index.ts';

/** An attribute of this machine's kernel that can only be written, as `create` and `remove`; it knows no device of our names. */
const writeOnly = '/sys/bus/clocksource/drivers_probe';
const skip = canWrite(writeOnly) ? false : `${writeOnly} cannot be written here`;

function canWrite(file: string): boolean {
  try {
    accessSync(file, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

let sysDir: string;
beforeEach(() => {
  sysDir = mkdtempSync(path.join(tmpdir(), 'mediated-'));
});
afterEach(() => rmSync(sysDir, { recursive: true }));

function link(...file: string[]): void {
  const at = path.join(sysDir, ...file);
  mkdirSync(path.dirname(at), { recursive: true });
  symlinkSync(writeOnly, at);
}

describe('attributes of mediated devices', { skip }, () => {
  const uuid = '11111111-2222-3333-4444-555555555555';

  it('are written where the kernel lets nobody read them: its answer is of the device, not of the file', async () => {
    const order = { parent: '0000:65:00.0', type: 'nvidia-222' };
    link('class/mdev_bus', order.parent, 'mdev_supported_types', order.type, 'create');
    link('bus/mdev/devices', uuid, 'remove');
    const machine = new MediatedSysfs({ sysDir });
    const isAnswer = (error: unknown) => errorCode(error) === 'ENODEV';
    await assert.rejects(machine.create(order, uuid), isAnswer);
    await assert.rejects(machine.remove(uuid), isAnswer);
  });

  it('are not made by writing', async () => {
    mkdirSync(path.join(sysDir, 'bus/mdev/devices', uuid), { recursive: true });
    await assert.rejects(new MediatedSysfs({ sysDir }).remove(uuid), (error) => errorCode(error) === 'ENOENT');
  });
});

it('a device whose type has a name that cannot be read is of no known type, and nothing counts as known', async () => {
  const card = path.join(sysDir, 'devices/pci0000:00/0000:65:00.0');
  const [uuid, type] = ['11111111-2222-3333-4444-555555555555', path.join(card, 'mdev_supported_types/nvidia-222')];
  mkdirSync(path.join(card, uuid), { recursive: true });
  mkdirSync(type, { recursive: true });
  symlinkSync('../mdev_supported_types/nvidia-222', path.join(card, uuid, 'mdev_type'));
  mkdirSync(path.join(sysDir, 'bus/mdev/devices'), { recursive: true });
  symlinkSync(path.join(card, uuid), path.join(sysDir, 'bus/mdev/devices', uuid));
  const machine = new MediatedSysfs({ sysDir });
  assert.deepEqual((await machine.read()).devices[0]?.type, { id: 'nvidia-222', name: undefined });
  mkdirSync(path.join(type, 'name'));
  await assert.rejects(machine.read(), (error) => errorCode(error) === 'EISDIR');
});
