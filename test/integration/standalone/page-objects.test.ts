import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { KubeClient, loadKubeAccess } from '../../../src/kube/index.ts';
import { cloneOf } from '../../../src/web/page/clone-model.ts';
import { refusalOf } from '../../../src/web/page/refusal.ts';
import { fieldAt, newVm, withForm } from '../../../src/web/page/vm-form.ts';
import { lineOf, yamlText } from '../../../src/web/page/yaml-text.ts';
import { type EmbeddedApi, startEmbeddedApi } from '../../fixtures/embedded-api.ts';

const path = '/apis/kubevirt.io/v1/namespaces/default/virtualmachines';
const image = { reference: 'my/debian:12', boots: 'disk', sizeBytes: 1 } as const;

describe('what the page makes, as the API of the node takes it', () => {
  let api: EmbeddedApi;
  let client: KubeClient;

  before(async () => {
    api = await startEmbeddedApi();
    client = new KubeClient({ userAgent: 'test' }, { access: await loadKubeAccess(api) });
  });
  after(async () => {
    client?.close();
    await api?.stop();
  });

  /** As the page sends it through its server. */
  async function send(method: 'POST' | 'PUT', target: string, text: string) {
    const headers = { accept: 'application/json', 'content-type': 'application/yaml' };
    const query = 'fieldValidation=Strict';
    const request = { method, path: `${target}?${query}`, headers, body: text, signal: AbortSignal.timeout(30_000) };
    const answer = await client.plain(request);
    return { httpStatus: answer.httpStatus, body: JSON.parse(answer.text) };
  }

  const filled = (name: string) =>
    withForm(
      newVm(image),
      {
        ...{ name, isStarted: false, cores: '2', memory: '512Mi', firmware: 'efi', disk: 'claim', diskClaim: 'data' },
        userData: '#cloud-config\nuser: me\n',
      },
      [image],
    );

  test('every form is taken: image, ISO with a claim, claim, kernel, scratch, no network, an instance type', async () => {
    const kernel = { reference: 'virt-node/demo', boots: 'kernel', sizeBytes: 1 } as const;
    const forms = [
      filled('image'),
      withForm(filled('iso'), { source: 'iso', image: 'my/iso' }),
      withForm(filled('claim'), { source: 'claim', claim: 'system', disk: 'none' }),
      withForm(newVm(kernel), { name: 'kernel', disk: 'scratch', network: 'none' }, [kernel]),
      withForm(filled('typed'), { instancetype: 'VirtualMachineClusterInstancetype/small', firmware: 'bios' }),
    ];
    for (const vm of forms) {
      const { httpStatus, body } = await send('POST', path, yamlText(vm));
      assert.equal(httpStatus, 201, body.message);
      assert.equal(body.metadata.name, vm.metadata.name);
    }
  });

  test('a field that is wrong comes back with its path, its field of the form and its line of the text', async () => {
    const text = yamlText(withForm(filled('wrong'), { memory: 'much' }));
    const { httpStatus, body } = await send('POST', path, text);
    const { message, fields } = refusalOf(body);
    assert.equal(httpStatus, 422);
    assert.match(message, /memory/);
    const [first] = fields;
    assert.ok(first, 'the API names no field');
    assert.equal(fieldAt(first.field), 'memory');
    const line = lineOf(text, first.field);
    assert.match(text.split('\n')[(line ?? 0) - 1] ?? '', /guest: much/);
  });

  test('a clone is taken, and has nothing that belongs to the original alone', async () => {
    const original = filled('original');
    const { template } = original.spec;
    template.spec.domain.firmware = { uuid: '5d1f5ac4-1c11-4b1f-8f0a-111111111111', serial: 'one' };
    template.spec.domain.devices?.interfaces?.splice(0, 1, {
      ...{ name: 'default', masquerade: {}, macAddress: '02:00:00:00:00:01' },
    });
    const made = await send('POST', path, yamlText(original));
    assert.equal(made.httpStatus, 201, made.body.message);
    const { vm, remarks } = cloneOf(made.body, 'copy');
    assert.doesNotMatch(JSON.stringify(vm), /5d1f5ac4|02:00:00|"serial"|resourceVersion|"uid"|status/);
    assert.ok(remarks.some((remark) => /the claim data of the original/.test(remark)));
    const { httpStatus, body } = await send('POST', path, yamlText(vm));
    assert.equal(httpStatus, 201, body.message);
    assert.equal(body.spec.runStrategy, 'Halted');
  });

  test('an edit of an object that somebody else has changed meanwhile is refused', async () => {
    const { body } = await send('POST', path, yamlText(filled('edited')));
    const edited = yamlText({ ...body, spec: { ...body.spec, runStrategy: 'Manual' } });
    assert.equal((await send('PUT', `${path}/edited`, edited)).httpStatus, 200);
    const again = await send('PUT', `${path}/edited`, edited);
    assert.equal(again.httpStatus, 409, again.body.message);
  });
});
