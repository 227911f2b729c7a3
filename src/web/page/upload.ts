import { refusalOf } from './refusal.ts';
import { CallError } from './server-calls.ts';
import { authorization } from './session.ts';

export interface UploadEvents {
  /** From 0 to 1. */
  readonly progress: (part: number) => void;
  /** All has been sent; the node looks at it. */
  readonly sent: () => void;
}

/** Sends a file as an image of the node. Not `fetch`, which does not tell how much has been sent. Rejects with CallError. */
export function uploadImage(reference: string, file: Blob, on: UploadEvents, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const fail = (status: number, message: string) => reject(new CallError(status, message));
    request.open('POST', `/api/images/${encodeURIComponent(reference)}`);
    for (const [name, value] of Object.entries(authorization())) request.setRequestHeader(name, value);
    request.setRequestHeader('content-type', 'application/octet-stream');
    request.upload.onprogress = ({ loaded, total }) => on.progress(total > 0 ? loaded / total : 0);
    request.upload.onload = () => on.sent();
    request.onload = () => {
      if (request.status === 201) resolve();
      else fail(request.status, messageOf(request.responseText) || `${request.status} ${request.statusText}`);
    };
    request.onerror = () => fail(0, 'the connection was lost before all of it was there: nothing is kept of it');
    request.onabort = () => fail(0, 'it was given up: nothing is kept of it');
    signal.addEventListener('abort', () => request.abort(), { once: true });
    request.send(file);
  });
}

function messageOf(text: string): string {
  try {
    return refusalOf(JSON.parse(text)).message;
  } catch {
    return text;
  }
}

/** A name that people would give it: `debian-12.qcow2` is `my/debian-12`. */
export function referenceFor(fileName: string): string {
  const base = fileName.toLowerCase().replace(/(?:\.(?:qcow2|img|raw|iso|vmdk|vdi|vhdx|vhd))?(?:\.(?:gz|xz))?$/, '');
  const name = base.replace(/[^a-z0-9._-]/g, '-').replace(/^[^a-z0-9]/, '');
  return `my/${name.slice(0, 60) || 'image'}`;
}
