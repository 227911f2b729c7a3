import type { IncomingMessage } from 'node:http';
import type { Express, Request } from 'express';
import { errorMessage, type Logger } from '../base/index.ts';
import type { WebImages } from './ports.ts';
import { Rejection } from './rejection.ts';

/** An upload of which nothing comes for this long is given up. */
const silentMs = 60_000;

/** Images that VMs boot from, and new ones from a person's own files. */
export function addImages(app: Express, images: WebImages | undefined, log: Logger): void {
  const present = () => {
    if (!images) throw new Rejection(404, 'who serves this page keeps no images');
    return images;
  };
  app.get('/api/images', async (_request, response) => {
    response.json({ items: await present().list() });
  });
  app.post('/api/images/:reference', async (request: Request<{ reference: string }>, response) => {
    const { reference } = request.params;
    const ending = new AbortController();
    response.once('close', () => ending.abort(new Error('the client has gone')));
    request.setTimeout(silentMs, () => ending.abort(new Error(`nothing came for ${silentMs / 1_000} s`)));
    try {
      const image = await present().upload(reference, request, ending.signal);
      log.info({ reference, sizeBytes: image.sizeBytes }, 'image uploaded');
      response.status(201).json(image);
    } catch (cause) {
      // Read to its end: a browser that still sends does not read the refusal.
      request.resume();
      throw new Rejection(cause instanceof Rejection ? cause.httpStatus : 422, errorMessage(cause), { cause });
    } finally {
      request.setTimeout(0);
    }
  });
}

/** Takes as long as it takes; every other request has its limit of time. */
export function isUpload({ method, url = '' }: Pick<IncomingMessage, 'method' | 'url'>): boolean {
  return method === 'POST' && url.startsWith('/api/images/');
}
