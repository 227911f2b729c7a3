import type { Express, Request, Response } from 'express';
import { errorMessage } from '../base/index.ts';
import { isKubeRequest } from './kube-routes.ts';
import type { KubePassage } from './ports.ts';
import { Rejection } from './rejection.ts';
import { whileAsked } from './while-asked.ts';

/** As the API server has it. */
const maxBodyBytes = 3 * 1024 * 1024;

const prefix = '/kube';

/**
 * Requests of the page to the Kubernetes API, as they are: what the API answers, a refusal with its fields too, is what the page gets. So
 * the page writes by the same admission and the same rights as kubectl.
 */
export function addKubePassage(app: Express, kube: KubePassage | undefined): void {
  app.use(prefix, async (request: Request, response) => {
    if (!kube) throw new Rejection(403, 'who serves this page does not pass on requests to the Kubernetes API');
    const target = request.originalUrl.slice(prefix.length);
    if (!isKubeRequest(request.method, target)) throw new Rejection(404, 'the page has no such request to the API');
    await pass(kube, target, request, response);
  });
}

async function pass(kube: KubePassage, target: string, request: Request, response: Response): Promise<void> {
  const body = await readText(request);
  const { signal, done } = whileAsked(response);
  try {
    const { accept, 'content-type': contentType } = request.headers;
    const headers = {
      ...(typeof accept === 'string' && { accept }),
      ...(body !== '' && { 'content-type': contentType ?? 'application/json' }),
    };
    const asked = { method: request.method, path: target, headers, ...(body !== '' && { body }), signal };
    const answer = await kube.pass(asked);
    // What a guest or a user wrote is never a page of this origin.
    const type = /^application\/(?:json|yaml)\b/.test(answer.contentType) ? answer.contentType : 'text/plain';
    response.status(answer.httpStatus).set('Content-Type', type).send(Buffer.from(answer.text));
  } catch (cause) {
    throw new Rejection(502, `the Kubernetes API does not answer: ${errorMessage(cause)}`, { cause });
  } finally {
    done();
  }
}

/** The server's limit of time for a request holds for its body. */
async function readText(request: Request): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBodyBytes) throw new Rejection(413, `an object may have at most ${maxBodyBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
