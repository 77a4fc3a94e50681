//! Chunks written by hdf5plugin 7.1.

use super::Sperr;
use crate::codec::sample::{Sample, check};

#[test]
fn values_are_the_library_s_own() {
    check(&Sperr, SAMPLES);
}

const SAMPLES: &[Sample] = &[
    Sample {
        what: "constant",
        parameters: &[1042, 0x10040000, 9, 10],
        stored: "AIFaAAAAAAAAAAAAAAAAAARA",
        size: 360,
        sum: 0xc1b9ed8c,
    },
    Sample {
        what: "plane, cut at a rate",
        parameters: &[1042, 0x10010000, 40, 19],
        stored: "AIB0S9rAbn3hPwXFNl4IhRM+IBUDAAAAAAAAq/Rt+S/kX6V+2ca1IRy8RL16a26ZOOfV9LKVzFbya0HLkLClw+BfXC4PPkMS \
            5gNYDfgQQ2z92ym4CRau3PBJzcMBB1rwjQSEBBGMSXp4UAUeoFrxIcxiBUmodIlUkpg",
        size: 3040,
        sum: 0xba8a6957,
    },
    Sample {
        what: "plane, rank swap",
        parameters: &[1026, 0x90018000, 12, 31],
        stored: "AICVaFpeo2bePy6JpucYlAo+IAYDAAAAAAAAX+uaFtLvf76UrCz3//o86P5i1c8y//ffuUZFdSDgHPCsy8qNdXq+u/iWNaxR \
            DXswv7z8///z//+HIkrUWV/rru7iqP8Arw",
        size: 2976,
        sum: 0x6a96090e,
    },
    Sample {
        what: "plane, many bit planes",
        parameters: &[1026, 0x101e0000, 10, 9],
        stored: "AIDaY5y2k+bzPwooBK98nPo9IMsKAAAAAAAAbXw/KTkvu2XVOVTgCgfgGHktxbKjERgwKcu6b2P3shSfEa8sIz7CnUJMc8YT \
            9+NaFRaCwvDqY26hg5zoT6rhrkgb2kijJhsIoKkZEUjw0txxWAod8PivFwIbZTnH06gyf5MRC7XykqXmfLap3YblUvk7Kvv4 \
            zc0i9xPhN45Rrc5ka1+kIRP+30k+oWMjTNVb8AohT6YATqEt6xv2YL0pQL5MF2cSKsWXkQKYNu4GfiyhWs9cbGjGoZR2a+sy \
            lyWs33i+719wISIJb0D/TmuNqx8iKO44ynIHNdgoQDO5qGzuQjeEYmjpLoDcfa6Ru0ZcWBRT8msTXSG72Qz2GtCAalLO9lvW \
            5nwQBt/0NMNO+janvxn7mrqG3ag6v8QShcAFjxsLCbD5nietNbW5fPpjQACmafHYxiL8T0q3kgdqrMHe9PjYhKZRsS1GsCzV \
            3QapefE",
        size: 720,
        sum: 0x88c248d8,
    },
    Sample {
        what: "plane, signal to noise",
        parameters: &[1042, 0x20280000, 16, 16],
        stored: "AIAAYDzvWhfpP/Mki7Qcs7o/Ba8CAAAAAAAAr2Cxiu3/mjfY/1Wrxvls0dw+AYDMvPAsgPJ4LsY978Pqm5slJW9ulpRkKsVU \
            CkpTVJZlW1eSXi8J4HYrlW63UimVSqUuFp/PxeLzoceQd/ywsTgECgA",
        size: 1024,
        sum: 0xbbc64813,
    },
    Sample {
        what: "plane, outliers",
        parameters: &[1042, 0x3802526a, 20, 20],
        stored: "AIBcj4UZBnDgPyHSF5kxM9M/BUoDAAAAAAAAJ+R47lOkHXgiXS5CwygOKiWQhAYGAqhCRgmPABQAGiQAVOF9szsNgaKUYCEJ \
            4ftUtNuKx8C7DWTqWzE0cIuBxdQeePVMAYObabEHrkAB3tGYZbGF0LED8M77a3mxRVZtwVhXM2tAi8H3AQE3AAAAAAAAAM8D \
            Z/Gg5Qo",
        size: 1600,
        sum: 0x4825c92e,
    },
    Sample {
        what: "volume, dyadic",
        parameters: &[1043, 0x10010000, 10, 9, 12],
        stored: "AABgCgAAAAkAAAAMAAAAoQAAAIBuilGa4S3+P+apiyxyoQc+IPsFAAAAAAAAr4LFYjgXCwMM/3lglgE/9znSuzsK12AAqJBr \
            MCQyDo4AFQoAqP4Z8BEAaKvZjdVgY1Z73II7I/m10eV0dJIr3JJ0uSr8zxXM0k1yLLmtuDwQEBgiYAADYSMBDzCCUWDgB2Aj \
            ABCwYs8oLPRvYEAVEL/EH11jgTlNXJ8gX4tveXoDXn3nj67e",
        size: 4320,
        sum: 0x94c8b312,
    },
    Sample {
        what: "volume, deeper planes",
        parameters: &[1043, 0x10004ccd, 9, 20, 18],
        stored: "AABgCQAAABQAAAASAAAAlAAAAIAeTVzV5l39P80JDtP1QQw+IKQGAAAAAAAAX6vAKgBeq2BiFbWALBbQA/z//x96gM8D8FWW \
            JS4ElywxBF5lraVclsSlljJJAMn//////wc+/v//n////z/G///J/////P//n///+f8fAaWiqqr//6qqqv9JrFprrbXWqrXW \
            Wv///////1+x8O/754or/v/5////AO8",
        size: 12960,
        sum: 0x766de28d,
    },
    Sample {
        what: "volume, deeper columns",
        parameters: &[1043, 0x10006666, 9, 40, 10],
        stored: "AABgCQAAACgAAAAKAAAAzgAAAIApXB1m+vz1P7DUkKQqpBY+IMAJAAAAAAAAw+PCCy2hAz5d1lo4LR4Xjstar0yu+v0FT4vT \
            erwyzYus/PTjY8LjwFUkGRU+Pmaq9961e+/6x8Gh4qf/5R8AlKriVVWl9v8/JTz/v58qUWORtsbDw/r/8VgzS3CnS8IO8/6X \
            pPL/r///ceBM/NXYez/+3rup+lu/vpq//+dzp7z0czOvqn/VJ5/+QSCkzc/DR+j7z3wA8TzHACAEABAAAIAAAM48Av8bqrF/ \
            CBLa//8bqArb",
        size: 14400,
        sum: 0x07ba6f00,
    },
    Sample {
        what: "volume, deeper third axis",
        parameters: &[1043, 0x10003333, 18, 9, 40],
        stored: "AABgEgAAAAkAAAAoAAAAvAAAAIDGkP6rQYjnP+P3Yh8FtBc+IDkHAAAAAAAAh/8//Oef///////Df/jP5////3/++fzz//// \
            z+fz+f//D1erVVcrrFq1VqyrdbUy1loL39brc1/Pe+/W5m6vO5Ln5/Py883X897n85IkiSTfm7vMbXPP7La+b7dKvqnEpn17 \
            3X097902d3vdkQJgAACAB3DOMU3j41CrPlFqpfzlKlR//FotrtZisdbVulpr9TI7ti3Ztl4n39pfPM+92pl5",
        size: 25920,
        sum: 0x362161f1,
    },
    Sample {
        what: "plane, missing values",
        parameters: &[1106, 0x10010000, 12, 24],
        stored: "AdAAAAD+AAD4GADgA2CADwCAPwAAPhg/AAAAgHIcr2Uad+Q/oRBLkKFKAD4gRwEAAAAAAABv1uAsMv19gvz///+/X/////// \
            f/nRz4z7uf6/JO/f13zLyrI",
        size: 1152,
        sum: 0x514860bb,
    },
    Sample {
        what: "plane, mostly missing values",
        parameters: &[1090, 0x10010000, 16, 32],
        stored: "AVkAAACqKjB+AAAAAICkzEW3HLPRv2KSXHE3XgI+IBoCAAAAAAAAX+Fakv/z+1rJtUZ+0/8d7+A73kHu+///v/P//////+// \
            /9vxDr4DAH9V/z+zWlYpwEcB+H2/j7/AfzAAAIBjjA",
        size: 4096,
        sum: 0xc2a29c57,
    },
    Sample {
        what: "plane, large values",
        parameters: &[1170, 0x10010000, 11, 12],
        stored: "As6XQHtIAAAADARAAACAJ5tMXIwp9D+/hqoA6IT8PSCIAAAAAAAAAGea8u+PflIUVtwdZwKHDobD",
        size: 528,
        sum: 0x365a8776,
    },
    Sample {
        what: "volume, large values",
        parameters: &[1155, 0x10010000, 9, 9, 9],
        stored: "AuMgec/5EnjHewAAAAAG/wEAMAAA8B8AAABACQAAAAkAAAAJAAAAdgAAAIBuPC4txdb8P1IBS5K3YQ0+IAYDAAAAAAAAr6os \
            FgYcgEX/wwpiiOE/BnRKhX3sPSyUtiuspbRcWHAHzACQBD4A/n7/qD86aD/gAoQLZ7fI6MKlK0IhUzO6YhlxWRKXLDFJBr4g \
            rlqsuBaBK1YsCkMKuJgVXCk",
        size: 5832,
        sum: 0xf3c2ca14,
    },
    Sample {
        what: "volume in pieces, version 0 of the filter",
        parameters: &[19, 0x30000000, 60, 29, 51],
        stored: "AHA8AAAAHQAAADMAAAAdABYACgAqAAAAKQAAACEAAAAaAAAAIAAAACkAAAAmAAAAJwAAACYAAAAuAAAAgDOKglv/+6i/XZc6 \
            6iK6TUABewAAAAAAAACJCCAJAEQKRJoDANYHAAAAgOR+tKExBaQ/2iAvlwIvU0ABdQAAAAAAAACBpFKQVAoUgAAM5ZlFAACA \
            a8i0hgEErb/ADHzDGb1KQAE4AAAAAAAAABTAAAhBDQCAaqZKcg2Hk7+zGZ407TBVQAAAAAAAAAAAAIBx6Mh7q97Zv4zMyjQn \
            kUtAASoAAAAAAAAAgECBCgAAgFIxLOduVuC/VzLO/1yXVEABcgAAAAAAAABBsAAgBBUgBaZSuFggLQCAfPkGT9KTzT+uWxil \
            EShLQAFaAAAAAAAAALGBAwBQAA9AICgCAICzDJ/hpvXeP9Ff+3nWZ1RAAWQAAAAAAAAADMR8IJ8HIBDUj58PAIC2AkpVfzPG \
            P0p2R/FRvU5AAVkAAAAAAAAAAQCjCAAgCECIQAAAgJop2T3iMds/Tt48c0pBUUABnAAAAAAAAABFAQCBBlEAgCABHMCAAIAo \
            pBIAAA",
        size: 354960,
        sum: 0xb57aa106,
    },
    Sample {
        what: "volume in pieces, version 0 of the filter, cut",
        parameters: &[19, 0x30000000, 56, 41, 60],
        stored: "APA4AAAAKQAAADwAAAANABkAGgARAAAAEQAAABoAAAAaAAAAEQAAABEAAAAaAAAAGgAAABEAAAARAAAAGgAAACIAAAARAAAA \
            EQAAABoAAAAaAAAAgQIhAAAAAAAAAAAAAAAACECBAiEAAAAAAAAAAAAAAAAIQIA4aAyr+AnpP6udEvJ24lpAAAAAAAAAAAAA \
            gE5pu96tjtw/BTRLkaJ3X0AAAAAAAAAAAACBIBUAAAAAAAAAAAAAAAAIQIEgFQAAAAAAAAAAAAAAAAhAgPJg+JeZxtQ/l+AE \
            M+51V0AAAAAAAAAAAACAHZNV4VKXkD9CSUuNb8lZQAAAAAAAAAAAAIEqKwAAAAAAAAAAAAAAAAhAgSorAAAAAAAAAAAAAAAA \
            CECAkhmzjmLO3T+RFcn4oAhYQAAAAAAAAAAAAIBDO+Lv7te+Py2xwhw5D11AAToAAAAAAAAAABAIBAkhAQCBoBsAAAAAAAAA \
            AAAAAAAIQIGgGwAAAAAAAAAAAAAAAAhAgMZZCUURC+M/+FSjuO50WUAAAAAAAAAAAACA09KilF8asT9YU5i4DOheQAAAAAAA \
            AAAAAA",
        size: 551040,
        sum: 0x020a9fc9,
    },
];
