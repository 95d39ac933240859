// Signatures of webhooks.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { InvalidSignature, verifyWebhook } from "stockhold";

const KEY = "0123456789abcdef01234567";
const BODY = '{"type":"stockhold.reservation.confirmed","owner_id":"Zoë"}';
const SECRET = `whsec_${btoa(KEY)}`;
const SIGNATURE = createHmac("sha256", KEY).update(`msg_1.1000.${BODY}`).digest("base64");
const HEADERS = { "Webhook-Id": "msg_1", "Webhook-Timestamp": "1000", "Webhook-Signature": `v1,AAAA v1a,%% v1,${SIGNATURE}` };

test("a signed webhook is an event", async () => {
  for (const headers of [HEADERS, new Headers(HEADERS)]) {
    for (const body of [BODY, new TextEncoder().encode(BODY)]) {
      assert.equal((await verifyWebhook(SECRET, headers, body, 1_200)).type, "stockhold.reservation.confirmed");
    }
  }
});

test("a webhook of somebody else, or of another time, is refused", async () => {
  const wrong: Parameters<typeof verifyWebhook>[] = [
    [SECRET, HEADERS, `${BODY} `, 1_200],
    [SECRET, HEADERS, BODY, 1_301],
    [SECRET, HEADERS, BODY, 699],
    [SECRET, HEADERS, BODY],
    [SECRET, { ...HEADERS, "Webhook-Timestamp": "x" }, BODY, 1_200],
    [SECRET, { ...HEADERS, "Webhook-Id": "msg_2" }, BODY, 1_200],
    [SECRET, { ...HEADERS, "Webhook-Signature": SIGNATURE }, BODY, 1_200],
    [`whsec_${btoa("other")}`, HEADERS, BODY, 1_200],
    [SECRET, {}, BODY, 1_200],
  ];
  for (const call of wrong) await assert.rejects(verifyWebhook(...call), InvalidSignature);
});

test("a secret that is none is a mistake of the caller", async () => {
  for (const secret of ["", "whsec_", "whsec_%"]) await assert.rejects(verifyWebhook(secret, HEADERS, BODY, 1_200), TypeError);
});
