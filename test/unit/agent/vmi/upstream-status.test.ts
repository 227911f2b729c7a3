import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { selinuxContexts } from '../../../../src/agent/node/facts/host-selinux.ts';
import { silentLogger } from '../../../../src/base/index.ts';
import { domainOf } from '../../../fixtures/agent/builders.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import { startRunning } from './agent-loop.ts';

/** What upstream's status work could do better (docs/better-than-upstream.md), as far as no other test shows it. */

function withGuestAgent(state: string) {
  const domain = domainOf('Running');
  domain.Spec.Devices.Channels = [
    { Target: { Name: 'org.qemu.guest_agent.0', Type: 'virtio', Address: '', Port: 1, State: state } },
  ];
  return domain;
}

test('a guest agent is asked once per connection, whatever number of passes', async (t) => {
  const { loop, launcher } = await startRunning(t);
  launcher.guestAgent = { version: '8.2.0', commands: [] };
  const asked = () => launcher.calls.filter((call) => call === 'guest-info').length;
  loop.launchers.become(launcher, withGuestAgent('connected'));
  await settle();
  for (let pass = 0; pass < 20; pass++) {
    loop.api.change('default/vm1', ({ metadata }) => {
      metadata.labels = { ...metadata.labels, pass: String(pass) };
    });
    await settle();
  }
  assert.equal(asked(), 1);
  loop.launchers.become(launcher, withGuestAgent('disconnected'));
  await settle();
  loop.launchers.become(launcher, withGuestAgent('connected'));
  await settle();
  assert.equal(asked(), 2);
});

test('a guest agent that hangs holds up neither pause nor end of its guest', async (t) => {
  const { loop, launcher } = await startRunning(t);
  launcher.guestAgent = 'hangs';
  loop.launchers.become(launcher, withGuestAgent('connected'));
  await settle();
  assert.equal(loop.condition('AgentConnected')?.status, 'True');
  const paused = withGuestAgent('connected');
  paused.Status = { ...paused.Status, Status: 'Paused', Reason: 'User' };
  loop.launchers.become(launcher, paused);
  await settle();
  assert.equal(loop.condition('Paused')?.reason, 'PausedByUser');
  loop.launchers.become(launcher, domainOf('Shutoff', 'Shutdown'));
  await settle();
  assert.equal(loop.phase(), 'Succeeded', 'without a timer having passed');
});

test('the message of Synchronized follows the problem', async (t) => {
  const { loop, launcher } = await startRunning(t);
  const messages: (string | undefined)[] = [];
  for (const error of ['no such disk', 'no memory']) {
    launcher.syncErrors = [error];
    loop.api.change('default/vm1', ({ spec }) => {
      spec.domain.cpu = { sockets: messages.length + 2 };
    });
    await settle();
    messages.push(loop.condition('Synchronized')?.message);
  }
  assert.match(messages[0] ?? '', /no such disk/);
  assert.match(messages[1] ?? '', /no memory/);
});

test('SELinux is looked for once, at start, and no process is run for it', async (t) => {
  const hostRoot = mkdtempSync(path.join(tmpdir(), 'selinux-'));
  t.after(() => rmSync(hostRoot, { recursive: true }));
  const without = await selinuxContexts({ hostRoot }, silentLogger);
  mkdirSync(path.join(hostRoot, 'sys/fs/selinux'), { recursive: true });
  writeFileSync(path.join(hostRoot, 'sys/fs/selinux/enforce'), '1');
  assert.equal(without(process.pid), 'none');
  const later = await selinuxContexts({ hostRoot }, silentLogger);
  assert.notEqual(later(process.pid), 'none');
});
