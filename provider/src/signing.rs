//! Requests to Amazon Bedrock that are signed instead of carrying a key: by credentials of a user, a role or a profile. Their form
//! is the one in which programs print them for AWS' own tools, so that `aws configure export-credentials`, and whatever
//! `credential_process` names, can be the command for the key.
//! <https://docs.aws.amazon.com/sdkref/latest/guide/feature-process-credentials.html>

use std::time::SystemTime;

use ah_conversation::{ErrorClass, ProviderError, json};
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use bytes::Bytes;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// Whether requests can be signed.
pub const IS_THERE: bool = true;

/// Credentials of AWS. They have no debug output, since they are secret.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Credentials {
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
}

/// Returns the credentials that the variables of AWS are, in the form that [`Credentials::read`] takes.
pub fn of_variables<'a>(variable: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    let credentials = serde_json::json!({
        "AccessKeyId": variable("AWS_ACCESS_KEY_ID")?,
        "SecretAccessKey": variable("AWS_SECRET_ACCESS_KEY")?,
        "SessionToken": variable("AWS_SESSION_TOKEN"),
    });
    Some(credentials.to_string())
}

impl Credentials {
    /// Returns the credentials that `secret` is; `None` for a key.
    pub fn read(secret: &str) -> Option<Self> {
        json::from_str(secret).ok()
    }

    /// Returns the headers that sign a request with this method, address and body at this time.
    ///
    /// # Errors
    ///
    /// If the address is not one of Bedrock's, or the credentials hold what a header cannot.
    pub fn headers(
        &self,
        method: &str,
        url: &Url,
        body: &[Bytes],
        time: SystemTime,
    ) -> Result<HeaderMap, ProviderError> {
        let host = url.host_str().unwrap_or_default();
        let (service, region) = scope(host).ok_or_else(|| ProviderError {
            hint: Some("addresses have the form `bedrock-mantle.REGION.api.aws`".to_owned()),
            ..failed(format!("a request to {host} cannot be signed"))
        })?;
        let identity = aws_credential_types::Credentials::new(
            &self.access_key_id,
            &self.secret_access_key,
            self.session_token.clone(),
            None,
            "ah",
        );
        let identity = identity.into();
        let settings = SigningParams::builder()
            .identity(&identity)
            .region(region)
            .name(service)
            .time(time)
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let mut digest = Sha256::new();
        for piece in body {
            digest.update(piece);
        }
        let digest = digest
            .finalize()
            .into_iter()
            .map(|byte| format!("{byte:02x}"));
        let body = SignableBody::Precomputed(digest.collect());
        let host = std::iter::once(("host", host));
        let request = SignableRequest::new(method, url.as_str(), host, body);
        let signed = request.and_then(|request| sign(request, &settings.into()));
        let (signed, _) = { signed.map_err(|error| failed(error.to_string()))? }.into_parts();
        let header = |(name, value): (&str, &str)| {
            let mut value = HeaderValue::from_str(value).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value))
        };
        let headers: Option<_> = signed.headers().map(header).collect();
        headers.ok_or_else(|| failed("the credentials hold what a header cannot".to_owned()))
    }
}

fn failed(message: String) -> ProviderError {
    ProviderError::new(ErrorClass::Authentication, message)
}

/// Returns the service, as signatures name it, and the region of a host. Before them, a private address has other parts.
fn scope(host: &str) -> Option<(&'static str, &str)> {
    let services = [
        ("bedrock-mantle", "bedrock-mantle"),
        ("bedrock-runtime", "bedrock"),
        ("bedrock-runtime-fips", "bedrock"),
    ];
    let mut parts = host.split('.');
    let service = parts.find_map(|part| services.iter().find(|(own, _)| *own == part))?;
    Some((service.1, parts.next()?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECRET: &str = r#"{"Version": 1, "AccessKeyId": "AKIDEXAMPLE",
        "SecretAccessKey": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "SessionToken": "token"}"#;

    #[test]
    fn the_service_and_the_region_follow_from_the_host() {
        for (host, expected) in [
            (
                "bedrock-mantle.eu-west-1.api.aws",
                Some(("bedrock-mantle", "eu-west-1")),
            ),
            (
                "bedrock-runtime.us-gov-west-1.amazonaws.com",
                Some(("bedrock", "us-gov-west-1")),
            ),
            (
                "vpce-1-2.bedrock-runtime.us-east-1.vpce.amazonaws.com",
                Some(("bedrock", "us-east-1")),
            ),
            ("gateway.example", None),
            ("bedrock-mantle", None),
        ] {
            assert_eq!(scope(host), expected, "{host}");
        }
    }

    #[test]
    fn a_key_is_no_credentials() {
        for secret in [
            "",
            "bedrock-api-key-Zm9v",
            "{}",
            r#"{"AccessKeyId": "a"}"#,
            "[1]",
        ] {
            assert!(Credentials::read(secret).is_none(), "{secret}");
        }
        assert!(Credentials::read(SECRET).is_some());
    }

    /// The signature was computed by botocore 1.44.8 for the same request.
    #[test]
    fn a_request_is_signed() {
        let credentials = Credentials::read(SECRET).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000);
        let url = "https://bedrock-mantle.us-east-1.api.aws/anthropic/v1/messages";
        let body = [
            Bytes::from_static(b"{\"model\":"),
            Bytes::from_static(b"\"m\"}"),
        ];
        let headers = credentials.headers("POST", &url.parse().unwrap(), &body, time);
        let headers = headers.unwrap();
        let shown: Vec<_> = { headers.iter() }
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        assert_eq!(
            shown,
            [
                "x-amz-date: 20270115T080000Z",
                "authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20270115/us-east-1/bedrock-mantle/aws4_request, \
                 SignedHeaders=host;x-amz-date;x-amz-security-token, Signature=f09b8c6a77b06abf0a2a623e182aa33ee6e16f07288bbb0a14e06dc5791b95ae",
                "x-amz-security-token: token",
            ]
        );
        let elsewhere = "https://gateway.example/v1/messages".parse().unwrap();
        let error = credentials.headers("POST", &elsewhere, &body, time);
        let error = error.expect_err("no service is known there");
        assert_eq!(
            error.message,
            "a request to gateway.example cannot be signed"
        );
    }
}
