import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { type EmbeddedApi, startEmbeddedApi } from '../../fixtures/embedded-api.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { oddInputs } from '../../fixtures/odd-inputs.ts';
import { type OddInput, oddVmi } from '../../fixtures/odd-requests.ts';

/** Nothing odd is taken without a word, and nothing of what is refused stays. */

let api: EmbeddedApi;
before(async () => {
  api = await startEmbeddedApi();
});
after(() => api.stop());

async function send({ request }: OddInput) {
  const { method = 'POST', path, body, contentType } = request;
  const answer = await api.client.call(method, path, body, contentType === undefined ? {} : { contentType });
  return { ...answer, plainPath: path.split('?', 1)[0] };
}

const checks: { readonly [K in OddInput['answer']['kind']]: (input: OddInput) => Promise<void> } = {
  async refused(input) {
    const { status, text, body } = await send(input);
    assert.deepEqual([status, body?.kind, body?.status], [statusOf(input), 'Status', 'Failure'], text);
    assert.match(String(body.message), input.answer.says);
    assert.ok(text.length < 20_000, `${text.length} bytes of refusal`);
  },
  async warned(input) {
    const { status, headers, text, body, plainPath } = await send(input);
    assert.equal(status, 201, text);
    assert.match(String(headers.warning), input.answer.says);
    assert.equal((await api.client.delete(`${plainPath}/${body.metadata.name}`)).status, 200);
  },
  async explained(input) {
    const { status, text, body, plainPath } = await send(input);
    assert.equal(status, 201, text);
    await eventually(async () => {
      const field = `involvedObject.uid=${body.metadata.uid}`;
      const { body: events } = await api.client.get(`/api/v1/events?fieldSelector=${encodeURIComponent(field)}`);
      assert.match(JSON.stringify(events.items), input.answer.says);
    });
    assert.equal((await api.client.delete(`${plainPath}/${body.metadata.name}`)).status, 200);
  },
};

function statusOf({ answer }: OddInput): number | undefined {
  return answer.kind === 'refused' ? answer.status : undefined;
}

for (const [area, inputs] of Object.entries(oddInputs)) {
  suite(area, () => {
    for (const input of inputs) test(input.title, () => checks[input.answer.kind](input));
  });
}

test('there are a hundred of them, and no two of one name', () => {
  const titles = Object.entries(oddInputs).flatMap(([area, inputs]) => inputs.map(({ title }) => `${area}: ${title}`));
  assert.ok(titles.length >= 100, `${titles.length}`);
  assert.equal(new Set(titles).size, titles.length);
});

test('nothing is left of what was refused', async () => {
  const leftovers = ['virtualmachineinstances', 'virtualmachines', 'virtualmachineinstancereplicasets'];
  for (const resource of leftovers) {
    const { body } = await api.client.get(`/apis/kubevirt.io/v1/${resource}`);
    assert.deepEqual(body.items, []);
  }
  for (const resource of ['pods', 'services', 'persistentvolumeclaims']) {
    assert.deepEqual((await api.client.get(`/api/v1/namespaces/default/${resource}`)).body.items, []);
  }
});

test('what the KubeVirt object permits is looked at: a bridge on the pod network, machine types, gates', async () => {
  const kubevirts = '/apis/kubevirt.io/v1/namespaces/default/kubevirts';
  const devices = { interfaces: [{ name: 'a', bridge: {} }], autoattachVSOCK: true };
  const vmi = oddVmi({
    spec: { domain: { devices, machine: { type: 'mine-2' } }, networks: [{ name: 'a', pod: {} }] },
  });
  const refusals = async (configuration: object) => {
    const object = { apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata: { name: 'kubevirt' } };
    const made = await api.controller.post(kubevirts, { ...object, spec: { configuration } });
    assert.equal(made.status, 201, made.text);
    const deployed = { status: { phase: 'Deployed' } };
    assert.equal((await api.controller.patch(`${kubevirts}/kubevirt/status`, 'merge', deployed)).status, 200);
    const { body } = await api.client.post(
      `/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances?dryRun=All`,
      vmi,
    );
    assert.equal((await api.controller.delete(`${kubevirts}/kubevirt`)).status, 200);
    return (body.details?.causes ?? []).map(({ field, message }: Record<string, string>) => `${field}: ${message}`);
  };
  const named = 'spec.domain.devices';
  assert.deepEqual(await refusals({ network: { permitBridgeInterfaceOnPodNetwork: false } }), [
    `${named}.interfaces[0].name: Bridge on pod network configuration is not enabled under kubevirt-config`,
    'spec.domain.machine.type: spec.domain.machine.type is not supported: mine-2 (allowed values: [q35* pc-q35*])',
    `${named}.autoattachVSOCK: VSOCK feature gate is not enabled in kubevirt-config`,
  ]);
  const developerConfiguration = { featureGates: ['VSOCK'] };
  assert.deepEqual(await refusals({ emulatedMachines: ['mine-*'], developerConfiguration }), []);
});
