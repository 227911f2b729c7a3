/** How long a client's message is, and whether it does something to the guest. */
export type MessageSize =
  | { readonly kind: 'unsure'; readonly needsBytes: number }
  | { readonly kind: 'known'; readonly bytes: number; readonly isInput: boolean }
  | { readonly kind: 'unknown' };

const view = (bytes: number): MessageSize => ({ kind: 'known', bytes, isInput: false });
const input = (bytes: number): MessageSize => ({ kind: 'known', bytes, isInput: true });
const unsure = (needsBytes: number): MessageSize => ({ kind: 'unsure', needsBytes });

/** The longest of what has to be seen as a whole: heads that have a length, input of fixed length, an authentication. */
export const maxHeadBytes = 16;

/**
 * Measures the message that starts with `head`: RFC 6143 §7.5 and the extensions that QEMU and noVNC use. `hasWideButtons`:
 * the client has asked for the pseudo-encoding of more than seven mouse buttons, whose events are a byte longer.
 */
export function measureMessage(head: Buffer, hasWideButtons: boolean): MessageSize {
  switch (head[0]) {
    case 0: // SetPixelFormat
      return view(20);
    case 2: // SetEncodings
      return head.length < 4 ? unsure(4) : view(4 + 4 * head.readUInt16BE(2));
    case 3: // FramebufferUpdateRequest
    case 150: // EnableContinuousUpdates
      return view(10);
    case 4: // KeyEvent
      return input(8);
    case 5: // PointerEvent
      if (head.length < 2) return unsure(2);
      return input(hasWideButtons && head.readUInt8(1) >= 0x80 ? 7 : 6);
    case 6: // ClientCutText; a negative length says that it is of the extended kind
      return head.length < 8 ? unsure(8) : input(8 + Math.abs(head.readInt32BE(4)));
    case 248: // ClientFence
      return head.length < 9 ? unsure(9) : view(9 + head.readUInt8(8));
    case 250: // xvp: power off, reboot, reset
      return input(4);
    case 251: // SetDesktopSize
      return head.length < 8 ? unsure(8) : input(8 + 16 * head.readUInt8(6));
    case 253: // gii
      return head.length < 4 ? unsure(4) : input(4 + giiBytes(head));
    case 255:
      return measureQemuMessage(head);
    default:
      return { kind: 'unknown' };
  }
}

/** 0: a key with its scan code; 1: sound, which is only heard. */
function measureQemuMessage(head: Buffer): MessageSize {
  if (head.length < 2) return unsure(2);
  if (head[1] === 0) return input(12);
  if (head[1] !== 1) return { kind: 'unknown' };
  if (head.length < 4) return unsure(4);
  const operation = head.readUInt16BE(2);
  if (operation > 2) return { kind: 'unknown' };
  return view(operation === 2 ? 10 : 4);
}

/** The highest bit of the second byte says the byte order of what follows. */
function giiBytes(head: Buffer): number {
  return head.readUInt8(1) >= 0x80 ? head.readUInt16BE(2) : head.readUInt16LE(2);
}
