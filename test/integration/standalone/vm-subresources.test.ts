import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { get } from 'node:https';
import { after, before, beforeEach, describe, test } from 'node:test';
import { WebSocket } from 'ws';
import { silentLogger } from '../../../src/base/index.ts';
import { loadKubeAccess } from '../../../src/kube/index.ts';
import { ApiProgram, vmPath } from '../../../src/standalone/index.ts';
import { AgentStandIn } from '../../fixtures/agent-stand-in.ts';
import { ApiClient } from '../../fixtures/api-client.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { Kubectl } from '../../fixtures/kubectl.ts';

const group = '/apis/subresources.kubevirt.io/v1';
const vmis = '/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances';
const vms = '/apis/kubevirt.io/v1/namespaces/default/virtualmachines';
const spec = { domain: { devices: {}, memory: { guest: '64Mi' } } };

describe('subresources.kubevirt.io of the standalone node', () => {
  let agent: AgentStandIn;
  let program: ApiProgram;
  let admin: ApiClient;
  let controller: ApiClient;
  let server: string;
  let token: string;

  before(async () => {
    agent = await AgentStandIn.start();
    const options = { paths: agent.paths, host: '127.0.0.1', port: 0, nodeName: 'one', nodes: 1 };
    program = new ApiProgram(options, { log: silentLogger });
    await program.start();
    admin = ApiClient.fromKubeconfig(agent.paths.kubeconfig);
    controller = ApiClient.fromKubeconfig(agent.paths.kubeconfigs['virt-controller']);
    const access = await loadKubeAccess({ kubeconfig: agent.paths.kubeconfig });
    server = access.server;
    token = String((await access.credentials.current()).headers.authorization);
    const head = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance', spec };
    for (const name of ['demo', 'other']) await admin.post(vmis, { ...head, metadata: { name } });
    const noConsole = { ...spec, domain: { ...spec.domain, devices: { autoattachSerialConsole: false } } };
    await admin.post(vmis, { ...head, metadata: { name: 'mute' }, spec: noConsole });
    for (const name of ['demo', 'mute']) {
      await controller.patch(`${vmis}/${name}`, 'merge', { status: { phase: 'Running', nodeName: 'one', nodes: 1 } });
    }
  });
  after(async () => {
    await program.stop();
    await agent.stop();
  });
  beforeEach(() => {
    agent.calls.length = 0;
  });

  const at = (name: string, sub: string) => `${group}/namespaces/default/virtualmachineinstances/${name}/${sub}`;
  const vmAt = (name: string, sub: string) => `${group}/namespaces/default/virtualmachines/${name}/${sub}`;

  function connect(path: string, headers: Record<string, string> = { authorization: token }): WebSocket {
    const url = `${server.replace('https', 'wss')}${path}`;
    const socket = new WebSocket(url, ['plain.kubevirt.io'], { headers, rejectUnauthorized: false });
    socket.on('error', () => undefined);
    return socket;
  }

  async function refused(socket: WebSocket) {
    const [, answer] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage];
    return { status: answer.statusCode, text: String(await answer.toArray()) };
  }

  test('discovery lists it, and kubectl does not take it for another virtualmachineinstances', async () => {
    const { body } = await admin.get(group);
    const verbs = Object.fromEntries(
      body.resources.map(({ name, verbs: can }: { name: string; verbs: string[] }) => [name, can.join()]),
    );
    assert.equal(verbs['virtualmachineinstances/console'], 'get');
    assert.equal(verbs['virtualmachineinstances/pause'], 'update');
    assert.equal(verbs['virtualmachines/start'], 'update');
    const kubectl = new Kubectl(agent.paths.kubeconfig, `${agent.paths.stateDir}/home`);
    assert.doesNotMatch(await kubectl.run(['api-resources']), /subresources/);
    assert.match(await kubectl.run(['get', 'vmi', 'demo']), /Running/);
    assert.equal((await admin.get(`${group}/version`)).body.gitVersion, 'v1.9.0+virt-node');
  });

  test('a PUT goes to the agent with its body, and its refusal comes back as a Status with its words', async () => {
    agent.answers.set(`PUT ${vmPath('default', 'demo')}/pause`, { status: 202, body: '' });
    assert.equal((await admin.put(at('demo', 'pause'), {})).status, 200);
    agent.answers.set(`PUT ${vmPath('default', 'demo')}/freeze`, { status: 400, body: 'unfreezeTimeout is missing' });
    const refusal = await admin.put(at('demo', 'freeze'), { unfreezeTimeout: '' });
    assert.deepEqual(
      [refusal.status, refusal.body.reason, refusal.body.message],
      [400, 'BadRequest', 'unfreezeTimeout is missing'],
    );
    assert.equal(agent.calls.at(-1)?.body, '{"unfreezeTimeout":""}');
    assert.doesNotMatch(JSON.stringify(agent.calls), /earer/);
  });

  test('a picture comes back byte by byte, with its type', async () => {
    const body = Buffer.from([0x89, 0x50, 0, 0xff]);
    agent.answers.set(`GET ${vmPath('default', 'demo')}/vnc/screenshot`, {
      status: 200,
      contentType: 'image/png',
      body,
    });
    const options = { ca: admin.ca, headers: { authorization: token }, agent: false } as const;
    const [answer] = (await once(get(`${server}${at('demo', 'vnc/screenshot')}`, options), 'response')) as [
      IncomingMessage,
    ];
    assert.equal(answer.headers['content-type'], 'image/png');
    assert.deepEqual(Buffer.concat(await answer.toArray()), body);
  });

  test('a console is a websocket to the agent’s, without the token of who asked', async () => {
    const socket = connect(at('demo', 'console'));
    await once(socket, 'open');
    assert.equal(socket.protocol, 'plain.kubevirt.io');
    await eventually(() => assert.equal(agent.guests.length, 1));
    const heard = once(socket, 'message');
    agent.guest.write('login: ');
    assert.equal(String((await heard)[0]), 'login: ');
    const screen = connect(`${at('demo', 'vnc')}?preserveSession=true`);
    await once(screen, 'open');
    assert.ok(agent.calls.some(({ what }) => what.endsWith('/demo/vnc?preserveSession=true')));
    assert.doesNotMatch(JSON.stringify(agent.calls), /earer/);
    for (const open of [socket, screen]) {
      open.close();
      await once(open, 'close');
    }
  });

  test('what virt-api would not pass on is refused with its words, for calls and for streams', async () => {
    const cases: [string, string, number, RegExp][] = [
      ['nobody', 'console', 404, /virtualmachineinstances.kubevirt.io \\?"nobody\\?" not found/],
      ['other', 'vnc', 409, /VMI is not running/],
      ['mute', 'console', 409, /No serial consoles are present/],
    ];
    for (const [name, sub, status, message] of cases) {
      const answer = await refused(connect(at(name, sub)));
      assert.equal(answer.status, status, answer.text);
      assert.match(answer.text, message);
    }
    for (const [sub, message] of [
      ['unpause', /VMI is not paused/],
      ['guestosinfo', /does not have guest agent connected/],
    ] as const) {
      const answer = sub === 'unpause' ? await admin.put(at('demo', sub), {}) : await admin.get(at('demo', sub));
      assert.equal(answer.status, 409);
      assert.match(answer.text, message);
    }
    assert.match((await admin.get(at('demo', 'console'))).text, /this is a websocket/);
    assert.equal((await admin.get(at('demo', 'pause'))).status, 405);
    assert.equal((await admin.get(at('demo', 'dance'))).status, 404);
    assert.deepEqual(agent.calls, []);
  });

  test('attestation of a guest: asked for, at the right time, and its session written once, for the node to start it', async () => {
    const encrypted = {
      ...spec,
      startStrategy: 'Paused',
      domain: {
        ...spec.domain,
        firmware: { bootloader: { efi: { secureBoot: false } } },
        launchSecurity: { sev: { attestation: {} } },
      },
    };
    const head = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance' };
    await admin.post(vmis, { ...head, metadata: { name: 'sealed' }, spec: encrypted });
    const session = { session: 'c2Vzc2lvbg==', dhCert: 'Y2VydA==' };
    const chain = { pdh: 'UERI', certChain: 'Q0hBSU4=' };
    const body = JSON.stringify(chain);
    agent.answers.set(`GET ${vmPath('default', 'sealed')}/sev/fetchcertchain`, {
      status: 200,
      contentType: 'application/json',
      body,
    });
    agent.answers.set(`PUT ${vmPath('default', 'sealed')}/sev/injectlaunchsecret`, { status: 202, body: '' });
    const refusal = async (answer: Promise<{ status: number; body: { message?: string } }>) => {
      const { status, body } = await answer;
      return `${status} ${body.message?.replace(/^.*": /, '')}`;
    };

    assert.equal(await refusal(admin.get(at('sealed', 'sev/fetchcertchain'))), '409 VMI is not assigned to a node yet');
    assert.equal(
      await refusal(admin.put(at('sealed', 'sev/setupsession'), session)),
      '409 VMI is not in Scheduled phase',
    );
    await controller.patch(`${vmis}/sealed`, 'merge', { status: { phase: 'Scheduled', nodeName: 'one' } });
    assert.deepEqual((await admin.get(at('sealed', 'sev/fetchcertchain'))).body, chain);
    assert.equal(
      await refusal(admin.put(at('sealed', 'sev/setupsession'), { dhCert: 'Y2VydA==' })),
      '400 Session blob is required',
    );
    assert.equal(
      await refusal(admin.put(at('sealed', 'sev/setupsession'), { session: 'c2Vzc2lvbg==' })),
      '400 DH cert is required',
    );
    assert.equal((await admin.get(at('sealed', 'sev/setupsession'))).status, 405);
    assert.equal((await admin.put(at('sealed', 'sev/setupsession'), session)).status, 202);
    const stored = (await admin.get(`${vmis}/sealed`)).body.spec.domain.launchSecurity;
    assert.deepEqual(stored, { sev: { attestation: {}, ...session } });
    assert.equal(await refusal(admin.put(at('sealed', 'sev/setupsession'), session)), '409 Session already defined');

    const secret = { header: 'aA==', secret: 'cw==' };
    assert.equal(await refusal(admin.put(at('sealed', 'sev/injectlaunchsecret'), secret)), '409 VMI is not running');
    await controller.patch(`${vmis}/sealed`, 'merge', { status: { phase: 'Running' } });
    assert.equal(await refusal(admin.get(at('sealed', 'sev/querylaunchmeasurement'))), '409 VMI is not paused');
    const paused = { status: { conditions: [{ type: 'Paused', status: 'True' }] } };
    await controller.patch(`${vmis}/sealed`, 'merge', paused);
    assert.equal((await admin.put(at('sealed', 'sev/injectlaunchsecret'), secret)).status, 200);
    assert.deepEqual(agent.calls.at(-1)?.body, JSON.stringify(secret));
    assert.equal(await refusal(admin.get(at('demo', 'sev/fetchcertchain'))), '409 Attestation not requested for VMI');
  });

  test('nobody without a token, without the right, or from a foreign page gets a stream', async () => {
    assert.equal((await refused(connect(at('demo', 'console'), {}))).status, 401);
    const foreign = connect(at('demo', 'console'), { authorization: token, origin: 'https://evil.example' });
    assert.equal((await refused(foreign)).status, 403);
    const handler = await loadKubeAccess({ kubeconfig: agent.paths.kubeconfigs['virt-handler'] });
    const { headers } = await handler.credentials.current();
    const answer = await refused(connect(at('demo', 'console'), { authorization: String(headers.authorization) }));
    assert.equal(answer.status, 403);
    assert.match(answer.text, /cannot get resource/);
    assert.deepEqual(agent.calls, []);
  });

  test('start, stop and restart write what virt-controller acts on', async () => {
    const template = { spec };
    const head = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine' };
    await admin.post(vms, { ...head, metadata: { name: 'vm' }, spec: { runStrategy: 'Halted', template } });
    assert.equal((await admin.put(vmAt('vm', 'restart'), {})).status, 409);
    assert.equal((await admin.put(vmAt('vm', 'start'), { paused: true })).status, 202);
    const requests = async () => (await admin.get(`${vms}/vm`)).body.status.stateChangeRequests;
    assert.deepEqual(await requests(), [{ action: 'Start', data: { paused: 'true' } }]);
    await controller.patch(`${vms}/vm/status`, 'merge', { status: { stateChangeRequests: null } });
    assert.equal((await admin.put(vmAt('vm', 'start'), {})).status, 202);
    assert.equal((await admin.get(`${vms}/vm`)).body.spec.runStrategy, 'Always');
    const again = await admin.put(vmAt('vm', 'start'), {});
    assert.deepEqual([again.status, again.body.reason], [409, 'Conflict']);
    assert.equal((await admin.put(vmAt('vm', 'stop'), {})).status, 202);
    assert.equal((await admin.get(`${vms}/vm`)).body.spec.runStrategy, 'Halted');
    assert.equal((await admin.put(vmAt('nobody', 'start'), {})).status, 404);
  });

  test('a guest is not unpaused while a snapshot of its VM is taken', async () => {
    agent.answers.set(`PUT ${vmPath('default', 'demo')}/unpause`, { status: 202, body: '' });
    const paused = { status: { conditions: [{ type: 'Paused', status: 'True' }] } };
    await controller.patch(`${vmis}/demo`, 'merge', paused);
    const head = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata: { name: 'demo' } };
    await admin.post(vms, { ...head, spec: { runStrategy: 'Always', template: { spec } } });
    await controller.patch(`${vms}/demo/status`, 'merge', { status: { snapshotInProgress: 'nightly' } });
    const refusal = await admin.put(at('demo', 'unpause'), {});
    assert.equal(refusal.status, 409);
    assert.match(refusal.body.message, /snapshot "nightly" of it is in progress/);
    assert.deepEqual(agent.calls, []);
    await controller.patch(`${vms}/demo/status`, 'merge', { status: { snapshotInProgress: null } });
    assert.equal((await admin.put(at('demo', 'unpause'), {})).status, 200);
    await controller.patch(`${vmis}/demo`, 'merge', { status: { conditions: null } });
    await admin.delete(`${vms}/demo`);
  });

  test('a dry run and a grace period of its own are refused, not passed over', async () => {
    for (const [path, body] of [
      [vmAt('vm', 'stop'), { gracePeriod: 0 }],
      [vmAt('vm', 'restart'), { gracePeriodSeconds: 0 }],
      [vmAt('vm', 'start'), { dryRun: ['All'] }],
      [at('demo', 'pause'), { dryRun: ['All'] }],
    ] as const) {
      const { status, body: said } = await admin.put(path, body);
      assert.deepEqual([status, said.reason], [501, 'NotImplemented'], path);
    }
    assert.equal((await admin.put(at('demo', 'pause'), 'no JSON')).status, 400);
    assert.deepEqual(agent.calls, []);
  });

  test('an agent that is away is a 503 in words', async () => {
    await agent.kill();
    const answer = await admin.put(at('demo', 'pause'), {});
    assert.deepEqual([answer.status, answer.body.reason], [503, 'ServiceUnavailable']);
    assert.match(answer.body.message, /virt-handler does not answer/);
    const stream = await refused(connect(at('demo', 'console')));
    assert.equal(stream.status, 502);
    assert.match(stream.text, /virt-handler does not answer/);
    await agent.serve();
  });

  test('kubectl exec, which wants an upgrade too, is refused in words for a pod that nothing runs', async () => {
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'p' },
      spec: { containers: [{ name: 'c', image: 'i' }] },
    };
    await admin.post('/api/v1/namespaces/default/pods', pod);
    const kubectl = new Kubectl(agent.paths.kubeconfig, `${agent.paths.stateDir}/home`);
    assert.match((await kubectl.try(['exec', 'p', '--', 'ls'])).stderr, /pod p: it is Pending, not Running/);
  });

  test('the API ends while consoles are open, and theirs end with it', async () => {
    const socket = connect(at('demo', 'console'));
    await once(socket, 'open');
    const closed = once(socket, 'close');
    await program.stop();
    assert.equal((await closed)[0], 1006);
  });
});
