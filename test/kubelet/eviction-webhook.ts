import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import type { TestAuthority } from '../fixtures/certificates.ts';
import type { KubeApiserver } from '../fixtures/kube-apiserver.ts';

const run = promisify(execFile);
const name = 'virt-launcher-eviction-interceptor.kubevirt.io';

interface Review {
  readonly request: { readonly uid: string; readonly namespace: string; readonly name: string };
}

/**
 * The one thing that virt-api does for `kubectl drain`: whoever asks a launcher's pod to go hears 429, and the VMI is marked to leave the node. For VMIs
 * that may migrate; with an admission review and a mark as upstream's (pkg/virt-api/webhooks/validating-webhook/admitters/pod-eviction-admitter.go).
 */
export class EvictionWebhook {
  readonly #server: Server;
  readonly #kubeconfig: string;

  private constructor(server: Server, kubeconfig: string) {
    this.#server = server;
    this.#kubeconfig = kubeconfig;
  }

  static async start(api: KubeApiserver, authority: TestAuthority): Promise<EvictionWebhook> {
    const address = '127.0.0.1';
    const pair = await authority.issue({ commonName: 'virt-api', usage: 'serverAuth', hosts: [address] });
    const server = createServer(pair);
    const webhook = new EvictionWebhook(server, api.adminKubeconfig);
    server.on('request', async (request, response) => {
      const { request: review }: Review = JSON.parse(await text(request));
      const { uid } = review;
      const refusal = await webhook.#refusal(review).catch(String);
      const status = refusal === undefined ? {} : { status: { code: 429, message: refusal } };
      const answer = { uid, allowed: refusal === undefined, ...status };
      response.setHeader('Content-Type', 'application/json');
      response.end(JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response: answer }));
    });
    await once(server.listen(0, address), 'listening');
    const { port } = server.address() as AddressInfo;
    const caBundle = Buffer.from(authority.pair.cert).toString('base64');
    const hook = {
      name,
      admissionReviewVersions: ['v1'],
      sideEffects: 'NoneOnDryRun',
      clientConfig: { url: `https://${address}:${port}/launcher-eviction-validate`, caBundle },
      rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods/eviction'] }],
    };
    const kind = 'ValidatingWebhookConfiguration';
    const object = { apiVersion: 'admissionregistration.k8s.io/v1', kind, metadata: { name }, webhooks: [hook] };
    api.kubectlStdin(JSON.stringify(object), 'create', '-f', '-');
    return webhook;
  }

  async stop(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }

  /** Undefined: it may go. */
  async #refusal({ namespace, name }: Review['request']): Promise<string | undefined> {
    const pod = await this.#get(namespace, 'pod', name);
    const { labels = {}, annotations = {} } = pod.metadata;
    if (labels['kubevirt.io'] !== 'virt-launcher' || /Succeeded|Failed/.test(pod.status.phase)) return undefined;
    const vmi = await this.#get(namespace, 'vmi', annotations['kubevirt.io/domain']);
    const { nodeName } = pod.spec;
    if (vmi.spec.evictionStrategy !== 'LiveMigrate') return undefined;
    const triggered = `Eviction triggered evacuation of VMI "${namespace}/${vmi.metadata.name}"`;
    if (vmi.status.evacuationNodeName) return `Evacuation in progress: ${triggered}`;
    if (vmi.status.nodeName !== nodeName) return 'Eviction request for target Pod';
    const patch = JSON.stringify([{ op: 'add', path: '/status/evacuationNodeName', value: nodeName }]);
    await this.#kubectl('-n', namespace, 'patch', 'vmi', vmi.metadata.name, '--type=json', '-p', patch);
    return triggered;
  }

  // biome-ignore lint/suspicious/noExplicitAny: objects of two shapes
  async #get(namespace: string, kind: string, name: string): Promise<any> {
    return JSON.parse(await this.#kubectl('-n', namespace, 'get', kind, name, '-o', 'json'));
  }

  async #kubectl(...args: string[]): Promise<string> {
    return (await run('kubectl', ['--kubeconfig', this.#kubeconfig, ...args])).stdout;
  }
}
